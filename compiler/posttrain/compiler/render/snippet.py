"""Renders source lines with marks: carets under the primary span, dashes under related spans."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from posttrain.compiler.render.display_width import DisplayLine, display_line, truncate_line
from posttrain.spec.diagnostic import Span

# A part of a line and its style; "" for none.
StyledText = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """A span to underline, with its label."""

    span: Span
    text: str
    kind: str
    # Whether it is the primary span of the diagnostic.
    primary: bool = False

    @property
    def underline(self) -> str:
        return "^" if self.primary else "-"


@dataclass(frozen=True, slots=True)
class SnippetLine:
    """A line of the snippet. Only source lines have a number; a gap represents omitted lines."""

    segments: tuple[StyledText, ...]
    number: int | None = None
    gap: bool = False


def render_snippet(marks: Sequence[Mark], source: Sequence[str], width: int) -> list[SnippetLine]:
    """The marked lines of one file, each with its marks below."""
    marks = [replace(mark, span=_trim_span(mark.span, source)) for mark in marks]
    tall = next((mark for mark in marks if mark.span.end_line > mark.span.line), None)
    numbers = {mark.span.line for mark in marks}
    numbers |= {tall.span.end_line} if tall else set()
    lines: list[SnippetLine] = []
    for number, left_out in _with_gaps(sorted(numbers)):
        bars = _margin_bars(tall, number)
        if left_out:
            lines.append(SnippetLine(() if _starts_at(tall, number) else bars, gap=True))
        here = [mark for mark in marks if mark.span.line == number and mark is not tall]
        line = display_line(source[number - 1].rstrip() if number <= len(source) else "")
        lines += _marked_lines(number, line, here, tall, bars, width)
    return lines


def _with_gaps(numbers: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """The line numbers, and whether lines before them are omitted. A gap of one line is shown instead."""
    before = numbers[0]
    for number in numbers:
        if number - before == 2:
            yield before + 1, False
        yield number, number - before > 2
        before = number


def _trim_span(span: Span, source: Sequence[str]) -> Span:
    """Trim a YAML block, whose span ends at the start of the next block, to its last text."""
    line, column = span.end_line, span.end_column
    while line > span.line and not _has_content(source, line, column):
        line, column = line - 1, 1 << 30
    if line == span.end_line:
        return span
    return Span(span.file, span.line, span.column, line, len(source[line - 1].rstrip()) + 1)


def _has_content(source: Sequence[str], line: int, column: int) -> bool:
    text = source[line - 1][: column - 1].strip() if line <= len(source) else ""
    return bool(text) and not text.startswith("#")


def _starts_at(tall: Mark | None, number: int) -> bool:
    return tall is not None and number == tall.span.line


def _margin_bars(tall: Mark | None, number: int) -> tuple[StyledText, ...]:
    """The bar at the left of the lines of a multi-line mark."""
    if tall is None:
        return ()
    if _starts_at(tall, number):
        return (("/ ", tall.kind),)
    return (("| ", tall.kind),) if tall.span.line < number <= tall.span.end_line else (("  ", ""),)


def _marked_lines(
    number: int,
    line: DisplayLine,
    here: Sequence[Mark],
    tall: Mark | None,
    bars: tuple[StyledText, ...],
    width: int,
) -> list[SnippetLine]:
    ends = tall is not None and number == tall.span.end_line
    places = [_place_mark(mark, line) for mark in here]
    text, moved = truncate_line(
        line,
        *_visible_range(places, line.display_column(tall.span.end_column) if tall and ends else 0),
        width,
    )
    lines = [SnippetLine((*bars, (text, "")), number)]
    through = (("| ", tall.kind),) if tall and _starts_at(tall, number) else bars
    moved_places = [_clamp_mark(placed, moved, line.width, width) for placed in places]
    lines += [SnippetLine((*through, *row)) for row in _annotation_rows(moved_places)]
    if tall and ends:
        label = f" {tall.text}" if tall.text else ""
        end = max(1, line.display_column(tall.span.end_column) + moved)
        lines.append(SnippetLine(((f"|{'_' * end}{tall.underline}{label}", tall.kind),)))
    return lines


def _visible_range(places: Sequence["PlacedMark"], otherwise: int) -> tuple[int, int]:
    """The part of a line that must be visible: the primary mark if there is one, else all marks."""
    shown = [placed for placed in places if placed[2].primary] or list(places)
    starts = [start for start, _, _ in shown] or [otherwise]
    return min(starts), max([end for _, end, _ in shown] or [otherwise])


def _clamp_mark(placed: "PlacedMark", moved: int, total: int, width: int) -> "PlacedMark":
    """A mark within the visible part of a long line. A mark outside it moves to the edge."""
    start, end, mark = placed
    if total <= width:
        return placed
    start = min(max(0, start + moved), width - 1)
    return start, min(max(start + 1, end + moved), width), mark


PlacedMark = tuple[int, int, Mark]


def _place_mark(mark: Mark, line: DisplayLine) -> PlacedMark:
    start = line.display_column(mark.span.column)
    end = line.display_column(mark.span.end_column) if mark.span.end_line == mark.span.line else line.width
    return start, max(end, start + 1), mark


def _annotation_rows(places: Sequence[PlacedMark]) -> list[list[StyledText]]:
    """The underlines with the label of the last mark, and below them the other labels, last first."""
    if not places:
        return []
    ordered = sorted(places, key=lambda placed: (placed[0], placed[2].primary))
    start, end, last = ordered[-1]
    rows = [_underlines(ordered)]
    rest = [placed for placed in ordered if placed[2].text]
    if last.text and all(other_end <= end for _, other_end, _ in ordered):
        rows[0].append((f" {last.text}", last.kind))
        rest = [placed for placed in rest if placed[2] is not last]
    if rest:
        rows.append(_connector_row(rest))
    while rest:
        start, _, mark = rest.pop()
        rows.append(
            [*_connector_row([placed for placed in rest if placed[0] < start], start), (mark.text, mark.kind)]
        )
    return rows


def _underlines(places: Sequence[PlacedMark]) -> list[StyledText]:
    """All underlines on one line. Where two overlap, the shorter one is on top."""
    cells: dict[int, StyledText] = {}
    for start, end, mark in sorted(places, key=lambda placed: (placed[0] - placed[1], placed[2].primary)):
        cells |= dict.fromkeys(range(start, end), (mark.underline, mark.kind))
    return _merge_segments([cells.get(place, (" ", "")) for place in range(max(cells) + 1)])


def _connector_row(places: Sequence[PlacedMark], upto: int = 0) -> list[StyledText]:
    """A line of bars that connect underlines to the labels below."""
    cells = {start: ("|", mark.kind) for start, _, mark in places}
    length = max(upto, max(cells, default=-1) + 1)
    return _merge_segments([cells.get(place, (" ", "")) for place in range(length)])


def _merge_segments(cells: Sequence[StyledText]) -> list[StyledText]:
    """Merge neighbors with the same style."""
    pieces: list[StyledText] = []
    for text, kind in cells:
        if pieces and pieces[-1][1] == kind:
            pieces[-1] = (pieces[-1][0] + text, kind)
        else:
            pieces.append((text, kind))
    return pieces

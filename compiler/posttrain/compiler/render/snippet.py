"""Source lines with what they are marked for: carets under the place, dashes under what bears on it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from posttrain.compiler.render.columns import Shown, cut, shown
from posttrain.spec.diagnostic import Span

# A piece of a line and the kind of its colour; "" for none.
Piece = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place to underline, with what is said about it."""

    span: Span
    text: str
    kind: str
    # Whether it is what the diagnostic is about.
    main: bool = False

    @property
    def stroke(self) -> str:
        return "^" if self.main else "-"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the snippet. Only source lines have a number; a gap stands for lines left out."""

    pieces: tuple[Piece, ...]
    number: int | None = None
    gap: bool = False


def snippet(marks: Sequence[Mark], source: Sequence[str], width: int) -> list[Line]:
    """The lines of one file that are marked, each with its marks below it."""
    marks = [replace(mark, span=_trimmed(mark.span, source)) for mark in marks]
    tall = next((mark for mark in marks if mark.span.end_line > mark.span.line), None)
    numbers = {mark.span.line for mark in marks}
    numbers |= {tall.span.end_line} if tall else set()
    lines: list[Line] = []
    for number, left_out in _with_gaps(sorted(numbers)):
        bars = _bars(tall, number)
        if left_out:
            lines.append(Line(() if _begins(tall, number) else bars, gap=True))
        here = [mark for mark in marks if mark.span.line == number and mark is not tall]
        line = shown(source[number - 1].rstrip() if number <= len(source) else "")
        lines += _marked(number, line, here, tall, bars, width)
    return lines


def _with_gaps(numbers: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """The numbers, and whether lines before are left out; a single line is shown rather than that."""
    before = numbers[0]
    for number in numbers:
        if number - before == 2:
            yield before + 1, False
        yield number, number - before > 2
        before = number


def _trimmed(span: Span, source: Sequence[str]) -> Span:
    """A block of YAML ends where the next begins: here it ends with its own last word."""
    line, column = span.end_line, span.end_column
    while line > span.line and not _last(source, line, column):
        line, column = line - 1, 1 << 30
    if line == span.end_line:
        return span
    return Span(span.file, span.line, span.column, line, len(source[line - 1].rstrip()) + 1)


def _last(source: Sequence[str], line: int, column: int) -> bool:
    text = source[line - 1][: column - 1].strip() if line <= len(source) else ""
    return bool(text) and not text.startswith("#")


def _begins(tall: Mark | None, number: int) -> bool:
    return tall is not None and number == tall.span.line


def _bars(tall: Mark | None, number: int) -> tuple[Piece, ...]:
    """The stroke at the left of lines that a tall mark goes through."""
    if tall is None:
        return ()
    if _begins(tall, number):
        return (("/ ", tall.kind),)
    return (("| ", tall.kind),) if tall.span.line < number <= tall.span.end_line else (("  ", ""),)


def _marked(
    number: int,
    line: Shown,
    here: Sequence[Mark],
    tall: Mark | None,
    bars: tuple[Piece, ...],
    width: int,
) -> list[Line]:
    ends = tall is not None and number == tall.span.end_line
    places = [_place(mark, line) for mark in here]
    text, moved = cut(line, *_focus(places, line.place(tall.span.end_column) if tall and ends else 0), width)
    lines = [Line((*bars, (text, "")), number)]
    through = (("| ", tall.kind),) if tall and _begins(tall, number) else bars
    moved_places = [_clamped(placed, moved, line.width, width) for placed in places]
    lines += [Line((*through, *row)) for row in _rows(moved_places)]
    if tall and ends:
        said = f" {tall.text}" if tall.text else ""
        end = max(1, line.place(tall.span.end_column) + moved)
        lines.append(Line(((f"|{'_' * end}{tall.stroke}{said}", tall.kind),)))
    return lines


def _focus(places: Sequence["Placed"], otherwise: int) -> tuple[int, int]:
    """The part of a line that must be seen: what the diagnostic is about, else all that is marked."""
    wanted = [placed for placed in places if placed[2].main] or list(places)
    starts = [start for start, _, _ in wanted] or [otherwise]
    return min(starts), max([end for _, end, _ in wanted] or [otherwise])


def _clamped(placed: "Placed", moved: int, total: int, width: int) -> "Placed":
    """A mark in the part of a long line that is shown; one outside is drawn at that part's edge."""
    start, end, mark = placed
    if total <= width:
        return placed
    start = min(max(0, start + moved), width - 1)
    return start, min(max(start + 1, end + moved), width), mark


Placed = tuple[int, int, Mark]


def _place(mark: Mark, line: Shown) -> Placed:
    start = line.place(mark.span.column)
    end = line.place(mark.span.end_column) if mark.span.end_line == mark.span.line else line.width
    return start, max(end, start + 1), mark


def _rows(places: Sequence[Placed]) -> list[list[Piece]]:
    """The strokes; what the last mark says beside them, what the others say below, last first."""
    if not places:
        return []
    ordered = sorted(places, key=lambda placed: (placed[0], placed[2].main))
    start, end, last = ordered[-1]
    rows = [_strokes(ordered)]
    rest = [placed for placed in ordered if placed[2].text]
    if last.text and all(other_end <= end for _, other_end, _ in ordered):
        rows[0].append((f" {last.text}", last.kind))
        rest = [placed for placed in rest if placed[2] is not last]
    if rest:
        rows.append(_stems(rest))
    while rest:
        start, _, mark = rest.pop()
        rows.append(
            [*_stems([placed for placed in rest if placed[0] < start], start), (mark.text, mark.kind)]
        )
    return rows


def _strokes(places: Sequence[Placed]) -> list[Piece]:
    """All strokes on one line: where two meet, the shorter one is seen."""
    cells: dict[int, Piece] = {}
    for start, end, mark in sorted(places, key=lambda placed: (placed[0] - placed[1], placed[2].main)):
        cells |= dict.fromkeys(range(start, end), (mark.stroke, mark.kind))
    return _joined([cells.get(place, (" ", "")) for place in range(max(cells) + 1)])


def _stems(places: Sequence[Placed], upto: int = 0) -> list[Piece]:
    """A line of bars that lead from strokes to what is said further down."""
    cells = {start: ("|", mark.kind) for start, _, mark in places}
    length = max(upto, max(cells, default=-1) + 1)
    return _joined([cells.get(place, (" ", "")) for place in range(length)])


def _joined(cells: Sequence[Piece]) -> list[Piece]:
    """Neighbours of one kind as one piece."""
    pieces: list[Piece] = []
    for text, kind in cells:
        if pieces and pieces[-1][1] == kind:
            pieces[-1] = (pieces[-1][0] + text, kind)
        else:
            pieces.append((text, kind))
    return pieces

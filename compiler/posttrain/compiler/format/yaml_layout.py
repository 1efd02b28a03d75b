"""Lays out syntax as lines: two spaces of indentation, short flow collections on one line, kept alignment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from posttrain.compiler.format.scalar_lines import normalize_quotes, scalar_lines
from posttrain.compiler.format.yaml_syntax import Collection, Entry, ScalarText, SyntaxNode

WIDTH = 120
_INDENT_WIDTH = 2


@dataclass(frozen=True, slots=True)
class OutputLine:
    text: str
    # The trailing comment, and its column in the source.
    comment: str = ""
    column: int = 0
    # The last line of a block scalar that keeps trailing line breaks: an empty line would become part of it.
    open: bool = False


def block_lines(group: Collection, indent: int) -> list[OutputLine]:
    """The lines of a block collection, with at least one line per entry."""
    widths = _key_widths(group, indent)
    lines: list[OutputLine] = []
    for place, entry in enumerate(group.entries):
        lead = entry.lead if place else _without_first_blank(entry.lead)
        lines += [_indented_line(text, indent) for text in lead]
        lines += (
            _mapping_entry_lines(entry, indent, widths[place])
            if group.mapping
            else _list_entry_lines(entry, indent)
        )
    lines += [_indented_line(text, indent) for text in group.tail]
    return lines


def _indented_line(text: str, indent: int) -> OutputLine:
    return OutputLine(" " * indent + text if text else "")


def _without_first_blank(lead: Sequence[str]) -> Sequence[str]:
    return lead[1:] if lead and not lead[0] else lead


def _mapping_entry_lines(entry: Entry, indent: int, width: int) -> list[OutputLine]:
    key = " " * indent + normalize_quotes(entry.key) + ":"
    one = inline_text(entry.value, WIDTH - max(len(key), width) - 1)
    if one is not None:
        text = f"{key.ljust(width)} {one}" if one else key
        return [OutputLine(text, entry.trail, entry.trail_column)]
    if isinstance(entry.value, ScalarText):
        first, *rest = scalar_lines(entry.value, indent + _INDENT_WIDTH)
        return _multiline_scalar_lines(f"{key} {first}", rest, entry)
    anchor = f" &{entry.value.anchor}" if entry.value.anchor else ""
    head = OutputLine(key + anchor, entry.trail, entry.trail_column)
    return [head, *block_lines(entry.value, indent + _INDENT_WIDTH)]


def _list_entry_lines(entry: Entry, indent: int) -> list[OutputLine]:
    dash = " " * indent + "-"
    one = inline_text(entry.value, WIDTH - len(dash) - 1)
    if one is not None:
        return [OutputLine(f"{dash} {one}".rstrip(), entry.trail, entry.trail_column)]
    if isinstance(entry.value, ScalarText):
        first, *rest = scalar_lines(entry.value, indent + _INDENT_WIDTH)
        return _multiline_scalar_lines(f"{dash} {first}", rest, entry)
    below = block_lines(entry.value, indent + _INDENT_WIDTH)
    if entry.value.anchor:
        return [OutputLine(f"{dash} &{entry.value.anchor}", entry.trail, entry.trail_column), *below]
    # The first entry is on the line of the dash, so its comments and those of the dash move above it.
    count = next(i for i, line in enumerate(below) if line.text.strip() and not _is_comment(line))
    comments = [entry.trail] if entry.trail else []
    comments += [line.text.strip() for line in below[:count] if line.text]
    first = replace(below[count], text=dash + below[count].text[indent + 1 :])
    return [*(_indented_line(text, indent) for text in comments), first, *below[count + 1 :]]


def _is_comment(line: OutputLine) -> bool:
    return line.text.lstrip().startswith("#")


def _multiline_scalar_lines(first: str, rest: Sequence[str], entry: Entry) -> list[OutputLine]:
    """A multi-line scalar. Its comment is at the end of the last line, or of a block's header."""
    lines = [OutputLine(first), *(OutputLine(line) for line in rest)]
    if entry.trail:
        lines[-1] = replace(lines[-1], comment=entry.trail, column=entry.trail_column)
    head = entry.value.text.partition("\n")[0] if isinstance(entry.value, ScalarText) else ""
    keeps = head[:1] in ("|", ">") and "+" in head.partition("#")[0]
    return [*lines[:-1], replace(lines[-1], open=keeps)]


def inline_text(node: SyntaxNode, room: int) -> str | None:
    """A node on one line, if it is a flow collection that fits and has no comments inside."""
    if isinstance(node, ScalarText):
        lines = scalar_lines(node, 0)
        return lines[0] if len(lines) == 1 else None  # scalars are never wrapped
    if not node.entries:
        text = "{}" if node.mapping else "[]"
        return _with_anchor(node, text) if not node.tail else None
    if not node.flow or node.tail:
        return None
    parts: list[str] = []
    length = 0
    for entry in node.entries:
        part = _inline_entry(entry, room - length)
        if part is None:
            return None
        parts.append(part)
        length += len(part) + 2
    inside = ", ".join(parts)
    text = _with_anchor(node, f"{{{inside}}}" if node.mapping else f"[{inside}]")
    return text if len(text) <= room else None


def _with_anchor(node: Collection, text: str) -> str:
    return f"&{node.anchor} {text}" if node.anchor else text


def _inline_entry(entry: Entry, room: int) -> str | None:
    if room < 0 or entry.trail or any(entry.lead):
        return None
    value = inline_text(entry.value, room)
    if value is None or not entry.key:
        return value
    return f"{normalize_quotes(entry.key)}: {value}" if value else normalize_quotes(entry.key)


def _key_widths(group: Collection, indent: int) -> list[int]:
    """The width of each key. Runs of one-line entries with aligned values stay aligned."""
    widths = [0] * len(group.entries)
    start = 0
    for end in range(1, len(group.entries) + 1):
        if end < len(group.entries) and _continues_run(group.entries[end - 1], group.entries[end]):
            continue
        run = group.entries[start:end]
        widest = indent + max(len(normalize_quotes(entry.key)) for entry in run) + 1
        if any(entry.padded for entry in run) and all(_fits_inline(entry, widest) for entry in run):
            widths[start:end] = [widest] * len(run)
        start = end
    return widths


def _continues_run(above: Entry, entry: Entry) -> bool:
    """Whether two entries belong to one run: nothing is between them, and their values are aligned."""
    lined_up = entry.value_column == above.value_column
    return lined_up and not entry.lead and _fits_inline(above, 0) and _fits_inline(entry, 0)


def _fits_inline(entry: Entry, width: int) -> bool:
    return bool(inline_text(entry.value, WIDTH - max(width, len(entry.key) + 1) - 1))


def join_lines(lines: Sequence[OutputLine]) -> str:
    """The text. Trailing comments follow after two spaces, or stay aligned."""
    lines = [
        line
        for above, line in zip((OutputLine(""), *lines), lines, strict=False)
        if line.text or not above.open
    ]
    texts: list[str] = []
    start = 0
    for end in range(1, len(lines) + 1):
        if end < len(lines) and _comments_aligned(lines[end - 1], lines[end]):
            continue
        widest = max(len(line.text) for line in lines[start:end])
        texts += [_with_comment(line, widest) for line in lines[start:end]]
        start = end
    return "\n".join(texts) + "\n"


def _with_comment(line: OutputLine, width: int) -> str:
    return f"{line.text.ljust(width)}  {line.comment}" if line.comment else line.text


def _comments_aligned(above: OutputLine, line: OutputLine) -> bool:
    return bool(above.comment and line.comment and above.column == line.column)

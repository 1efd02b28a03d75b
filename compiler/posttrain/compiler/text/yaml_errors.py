"""Why a text is no YAML, in words for the person who wrote it.

The parser says what it expected by the grammar. Most of its complaints have one of a few causes, which
can be told from the characters about the place.
"""

import re
from collections.abc import Callable
from typing import Any

from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.unclosed_brackets import UnclosedBrackets
from posttrain.spec.diagnostic import Label, Span

YamlErrorParts = tuple[Span, str, str, tuple[Label, ...]]
# Characters that look like others, by what they look like.
_LOOKALIKES = {
    "\u00a0": "a no-break space",
    "\u200b": "a zero-width space",
    "\u200e": "an invisible mark of direction",
    "\u200f": "an invisible mark of direction",
    "\u2060": "a word joiner",
    "\ufeff": "a byte order mark",
    "\u3000": "a wide space",
    "\uff1a": "a wide colon",
    "\u201c": "a curly quote",
    "\u201d": "a curly quote",
    "\u2018": "a curly quote",
    "\u2019": "a curly quote",
}
_QUOTE_HELP = "put the value in quotes"


def describe_yaml_error(error: Any, text: str, file: str) -> YamlErrorParts:
    """Where the matter is, what it is, what to do about it, and the other place that has to do with it."""
    mark = error.problem_mark or error.context_mark
    lines = text.split("\n")
    start = error.context_mark if error.context else None
    if start is not None and start.index == mark.index:
        start = None
    here = _span(file, mark.line, mark.column)
    problem = str(error.problem or error.context or "cannot be read").strip()
    if start is not None and start.line < len(lines) and _is_unclosed(problem, mark, start, lines):
        opened = lines[start.line][start.column : start.column + 1]
        message = f"the {opened} that stands here is never closed"
        return _span(file, start.line, start.column), message, "", (Label(here, "the text goes on to here"),)
    message, help = _explain(problem, mark, start, lines)
    odd = _lookalike(lines, start.line if start is not None else mark.line, mark.line)
    if start is not None and problem == "could not find expected ':'":
        return _span(file, start.line, start.column), message, odd or help, ()
    labels = () if start is None else (Label(_span(file, start.line, start.column), str(error.context)),)
    return here, message, odd or help, labels


def describe_unclosed(
    found: UnclosedBrackets, file: str, column: Callable[[int, int], int]
) -> YamlErrorParts:
    """Brackets that were taken as closed: the innermost, with the others that it stands in.

    `column` gives the column of a place as the user's text has it.
    """

    def span(line: int, at: int) -> Span:
        return _span(file, line, column(line, at))

    *outer, inner = found.brackets
    message = f"the {inner.char} that stands here is never closed"
    labels = tuple(Label(span(one.line, one.column), "nor is this one") for one in outer)
    end = Label(span(found.line, found.column), f"taken as closed before here, with {found.closing}")
    help = f"write `{found.closing}` where it ends; what follows is checked as if that stood in line"
    return span(inner.line, inner.column), message, f"{help} {found.line + 1}", (*labels, end)


def _span(file: str, line: int, column: int) -> Span:
    return Span(file, line + 1, column + 1, line + 1, column + 2)


def _is_unclosed(problem: str, mark: Any, start: Any, lines: list[str]) -> bool:
    """Whether a bracket or quote is open where the file ends, or where a key of the file begins."""
    if "end of stream" in problem or "<stream end>" in problem:
        return True
    line = lines[mark.line] if mark.line < len(lines) else ""
    grown = mark.line > start.line and re.match(r"[A-Za-z_]\w*:(\s|$)", line)
    return problem in ("expected ',' or '}', but got ':'", "expected ',' or ']', but got ':'") and bool(grown)


def _explain(problem: str, mark: Any, start: Any, lines: list[str]) -> tuple[str, str]:
    line = lines[mark.line] if mark.line < len(lines) else ""
    before, here = line[: mark.column], line[mark.column : mark.column + 1]
    about = lines[max(0, mark.line - 1) : mark.line + 1] + ([lines[start.line]] if start is not None else [])
    if any(re.match(r"(<{7}|={7}|>{7})( |$)", one) for one in about):
        return "a mark of a merge conflict", "resolve the conflict, and remove its marks"
    if (before.endswith("$") and here == "{") or re.search(r"\$\{[^}\"']*$", before):
        return "`${...}` inside { } or [ ] is taken for a mapping", 'put it in quotes: "${vars.NAME}"'
    if problem == "mapping values are not allowed here":
        return _explain_second_colon(mark, lines)
    known = next((told for pattern, *told in _PARSER_MESSAGES if re.match(pattern, problem)), None)
    if known is None and problem.startswith("expected <block end>, but found"):
        return _explain_after_value(here, before)
    return (known[0].replace("HERE", here), known[1]) if known else (problem, "")


# What the parser says, what it is, and what to do.
_PARSER_MESSAGES = (
    (r".*\\t", "a tab stands where YAML takes spaces alone", "indent and separate with spaces"),
    (
        r"could not find expected ':'",
        "this line has no colon with a space after it",
        "keys are written `key: value`",
    ),
    (
        r"expected <block end>, but found '\?'",
        "a key stands beside the items of a list",
        "a value is a list or a mapping, not both",
    ),
    (
        r"expected <block end>, but found ('<block|'-')",
        "this line is indented otherwise than those that it stands with",
        "align it with them",
    ),
    (r"expected ',' or '}'", "expected ',' or '}' here", "items are separated by commas"),
    (r"expected ',' or ']'", "expected ',' or ']' here", "items are separated by commas"),
    (r"found character .* that cannot start any token", "a value cannot begin with `HERE`", _QUOTE_HELP),
    (r"found unknown escape", "\\ begins an escape in double quotes", "write \\\\, or use single quotes"),
    (r"expected escape", "\\ begins an escape in double quotes", "write \\\\, or use single quotes"),
    (
        r"expected alphabetic or numeric",
        "`*` and `&` begin an alias or an anchor, which has a name",
        _QUOTE_HELP,
    ),
    (r".*indentation indicators", "after `|` or `>` the text begins on the next line", ""),
    (r"expected a comment or a line break", "after `|` or `>` the text begins on the next line", ""),
    (r"expected the node content", "a value is wanted before this HERE", ""),
    (
        r"expected '<document start>'",
        "what stands before this is a whole document already",
        "a recipe is one mapping",
    ),
)


def _explain_second_colon(mark: Any, lines: list[str]) -> tuple[str, str]:
    above = next((one for one in reversed(lines[: mark.line]) if one.strip()), "")
    line = lines[mark.line]
    if ": " in line[: mark.column] or not above.strip():
        return "a second colon in one line", f"{_QUOTE_HELP}, if the colon is a part of it"
    if re.match(r"\s*[\w-]+:\S", above):
        return "the line before this has no space after its colon", "keys are written `key: value`"
    if len(line) - len(line.lstrip()) > len(above) - len(above.lstrip()):
        return "this line is indented below a line that has a value already", "align it with the line before"
    return "the line before this is no `key: value`", "keys are written `key: value`"


def _explain_after_value(here: str, before: str) -> tuple[str, str]:
    if here in ("}", "]"):
        return f"this {here} closes nothing", "remove it"
    doubled = "inside single quotes, write '' for one; or use double quotes"
    return "the value has ended before this", doubled if "'" in before else ""


def _lookalike(lines: list[str], first: int, last: int) -> str:
    """A character about the place that is not what it looks like."""
    for number in range(max(0, first - 1), min(last + 1, len(lines))):
        for column, character in enumerate(lines[number], 1):
            if character in _LOOKALIKES:
                what = f"{_LOOKALIKES[character]} (U+{ord(character):04X})"
                return f"line {number + 1} has {what} at column {column}"
    return ""


def find_lookalike(word: str) -> str:
    """What is odd about a word that cannot be told by its looks."""
    found = next((character for character in word if character in _LOOKALIKES), None)
    return f"it holds {_LOOKALIKES[found]} (U+{ord(found):04X})" if found else ""


def describe_encoding_error(source: SourceFile, error: UnicodeDecodeError) -> tuple[Span, str, str]:
    """Where a file stops being UTF-8, and what it may be."""
    before = source.data[: error.start]
    line = before.count(b"\n") + 1
    column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
    span = Span(source.name, line, column, line, column + 1)
    wide = _wide_encoding(source.data)
    if wide:
        return Span(source.name, 1, 1, 1, 2), f"the file is {wide}, not UTF-8", "save the file as UTF-8"
    return span, f"byte 0x{source.data[error.start]:02x} is not UTF-8", "save the file as UTF-8"


def _wide_encoding(data: bytes) -> str:
    """The name of an encoding of two or four bytes, as Windows' editors write them."""
    if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "UTF-32"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16"
    start = data[:64]
    return "UTF-16 without its mark" if len(start) > 3 and start.count(0) * 2 == len(start) else ""


def describe_forbidden_character(text: str, position: int, file: str) -> tuple[Span, str, str]:
    """A character that YAML does not take."""
    before = text[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    span = Span(file, line, column, line, column + 1)
    wide = _wide_encoding(text[:64].encode("utf-8", "replace"))
    if wide:
        return span, f"the file is {wide}, not UTF-8", "save the file as UTF-8"
    character = f"U+{ord(text[position]):04X}" if position < len(text) else "a character"
    return span, f"{character} is not allowed in YAML", "remove the control character"


def describe_non_mapping(text: str) -> tuple[str, str]:
    """What a text without a mapping is, and how to begin."""
    begin = "`recipe new sft` writes one to begin with"
    if not re.sub(r"(?m)^\s*(#.*)?$", "", text).strip():
        return "the file is empty" if not text.strip() else "the file holds comments alone", begin
    return "a recipe is a mapping from names to sections", begin


def describe_parser_crash(error: Exception, text: str, file: str) -> tuple[Span, str, str]:
    """For what the parser itself stumbles over, such as a version of YAML that there is not."""
    lines = text.split("\n")
    line = next((number for number, one in enumerate(lines) if one.startswith("%")), 0)
    if lines[line].startswith("%"):
        return _span(file, line, 0), "a directive that the parser does not take", "remove the line"
    message = f"the parser gives up on this text: {type(error).__name__}"
    return _span(file, 0, 0), message, "write it more plainly"

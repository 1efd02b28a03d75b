"""Explains YAML syntax errors in terms of their cause.

The parser reports what the grammar expected. Most errors have one of a few causes, which the characters
near the error reveal.
"""

import re
from collections.abc import Callable
from typing import Any

from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.unclosed_brackets import UnclosedBrackets
from posttrain.spec.diagnostic import Label, Span

YamlErrorParts = tuple[Span, str, str, tuple[Label, ...]]
# Characters that look like other characters, with their descriptions.
_LOOKALIKES = {
    "\u00a0": "a no-break space",
    "\u200b": "a zero-width space",
    "\u200e": "an invisible direction mark",
    "\u200f": "an invisible direction mark",
    "\u2060": "a word joiner",
    "\ufeff": "a byte order mark",
    "\u3000": "a full-width space",
    "\uff1a": "a full-width colon",
    "\u201c": "a curly quote",
    "\u201d": "a curly quote",
    "\u2018": "a curly quote",
    "\u2019": "a curly quote",
}
_QUOTE_HELP = "put the value in quotes"


def describe_yaml_error(error: Any, text: str, file: str) -> YamlErrorParts:
    """The span, message, help and labels of a YAML error."""
    mark = error.problem_mark or error.context_mark
    lines = text.split("\n")
    start = error.context_mark if error.context else None
    if start is not None and start.index == mark.index:
        start = None
    here = _span(file, mark.line, mark.column)
    problem = str(error.problem or error.context or "cannot be read").strip()
    if start is not None and start.line < len(lines) and _is_unclosed(problem, mark, start, lines):
        opened = lines[start.line][start.column : start.column + 1]
        message = f"unclosed {opened}"
        label = Label(here, "the text continues up to here")
        return _span(file, start.line, start.column), message, "", (label,)
    message, help = _explain(problem, mark, start, lines)
    odd = _lookalike(lines, start.line if start is not None else mark.line, mark.line)
    if start is not None and problem == "could not find expected ':'":
        return _span(file, start.line, start.column), message, odd or help, ()
    labels = () if start is None else (Label(_span(file, start.line, start.column), str(error.context)),)
    return here, message, odd or help, labels


def describe_unclosed(
    found: UnclosedBrackets, file: str, column: Callable[[int, int], int]
) -> YamlErrorParts:
    """The error for unclosed brackets: at the innermost one, with labels for the enclosing ones.

    `column` maps a place to its column in the user's text.
    """

    def span(line: int, at: int) -> Span:
        return _span(file, line, column(line, at))

    *outer, inner = found.brackets
    message = f"unclosed {inner.char}"
    labels = tuple(Label(span(one.line, one.column), "also unclosed") for one in outer)
    end = Label(span(found.line, found.column), f"assuming {found.closing} before this place")
    help = f"add `{found.closing}` where it ends; the rest is checked as if it were in line {found.line + 1}"
    return span(inner.line, inner.column), message, help, (*labels, end)


def _span(file: str, line: int, column: int) -> Span:
    return Span(file, line + 1, column + 1, line + 1, column + 2)


def _is_unclosed(problem: str, mark: Any, start: Any, lines: list[str]) -> bool:
    """Whether a bracket or quote is still open at the end of the file or at a top-level key."""
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
        return "merge conflict marker", "resolve the conflict and remove its markers"
    if (before.endswith("$") and here == "{") or re.search(r"\$\{[^}\"']*$", before):
        return "`${...}` inside { } or [ ] is read as a mapping", 'put it in quotes: "${vars.NAME}"'
    if problem == "mapping values are not allowed here":
        return _explain_second_colon(mark, lines)
    known = next((text for pattern, *text in _PARSER_MESSAGES if re.match(pattern, problem)), None)
    if known is None and problem.startswith("expected <block end>, but found"):
        return _explain_after_value(here, before)
    return (known[0].replace("HERE", here), known[1]) if known else (problem, "")


# A pattern of the parser's message, our message, and the help.
_PARSER_MESSAGES = (
    (r".*\\t", "tab where YAML allows only spaces", "use spaces to indent and separate"),
    (
        r"could not find expected ':'",
        "this line has no colon followed by a space",
        "write keys as `key: value`",
    ),
    (
        r"expected <block end>, but found '\?'",
        "key between the items of a list",
        "a value is a list or a mapping, not both",
    ),
    (
        r"expected <block end>, but found ('<block|'-')",
        "inconsistent indentation",
        "align this line with the lines of its block",
    ),
    (r"expected ',' or '}'", "expected ',' or '}' here", "separate items with commas"),
    (r"expected ',' or ']'", "expected ',' or ']' here", "separate items with commas"),
    (r"found character .* that cannot start any token", "a value cannot start with `HERE`", _QUOTE_HELP),
    (
        r"found unknown escape",
        "\\ starts an escape sequence in double quotes",
        "write \\\\, or use single quotes",
    ),
    (r"expected escape", "\\ starts an escape sequence in double quotes", "write \\\\, or use single quotes"),
    (
        r"expected alphabetic or numeric",
        "`*` starts an alias and `&` an anchor; both need a name",
        _QUOTE_HELP,
    ),
    (r".*indentation indicators", "after `|` or `>` the text starts on the next line", ""),
    (r"expected a comment or a line break", "after `|` or `>` the text starts on the next line", ""),
    (r"expected the node content", "missing value before this HERE", ""),
    (
        r"expected '<document start>'",
        "the text before this place is already a complete document",
        "a recipe is one mapping",
    ),
)


def _explain_second_colon(mark: Any, lines: list[str]) -> tuple[str, str]:
    above = next((one for one in reversed(lines[: mark.line]) if one.strip()), "")
    line = lines[mark.line]
    if ": " in line[: mark.column] or not above.strip():
        return "second colon in one line", f"{_QUOTE_HELP} if the colon is part of it"
    if re.match(r"\s*[\w-]+:\S", above):
        return "the previous line has no space after its colon", "write keys as `key: value`"
    if len(line) - len(line.lstrip()) > len(above) - len(above.lstrip()):
        return (
            "unexpected indentation: the previous line already has a value",
            "align it with the previous line",
        )
    return "the previous line is not a `key: value` pair", "write keys as `key: value`"


def _explain_after_value(here: str, before: str) -> tuple[str, str]:
    if here in ("}", "]"):
        return f"unmatched {here}", "remove it"
    doubled = "inside single quotes, write '' for a quote, or use double quotes"
    return "unexpected text after the end of the value", doubled if "'" in before else ""


def _lookalike(lines: list[str], first: int, last: int) -> str:
    """A description of a confusable character near the place."""
    for number in range(max(0, first - 1), min(last + 1, len(lines))):
        for column, character in enumerate(lines[number], 1):
            if character in _LOOKALIKES:
                what = f"{_LOOKALIKES[character]} (U+{ord(character):04X})"
                return f"line {number + 1} has {what} at column {column}"
    return ""


def find_lookalike(word: str) -> str:
    """A description of a confusable character in a word."""
    found = next((character for character in word if character in _LOOKALIKES), None)
    return f"it contains {_LOOKALIKES[found]} (U+{ord(found):04X})" if found else ""


def describe_encoding_error(source: SourceFile, error: UnicodeDecodeError) -> tuple[Span, str, str]:
    """The first byte that is not UTF-8, and the probable encoding."""
    before = source.data[: error.start]
    line = before.count(b"\n") + 1
    column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
    span = Span(source.name, line, column, line, column + 1)
    wide = _wide_encoding(source.data)
    if wide:
        return Span(source.name, 1, 1, 1, 2), f"the file is {wide}, not UTF-8", "save the file as UTF-8"
    return span, f"byte 0x{source.data[error.start]:02x} is not UTF-8", "save the file as UTF-8"


def _wide_encoding(data: bytes) -> str:
    """The name of an encoding of two or four bytes, as Windows editors use."""
    if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "UTF-32"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16"
    start = data[:64]
    return "UTF-16 without a byte order mark" if len(start) > 3 and start.count(0) * 2 == len(start) else ""


def describe_forbidden_character(text: str, position: int, file: str) -> tuple[Span, str, str]:
    """The error for a character that YAML forbids."""
    before = text[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    span = Span(file, line, column, line, column + 1)
    wide = _wide_encoding(text[:64].encode("utf-8", "replace"))
    if wide:
        return span, f"the file is {wide}, not UTF-8", "save the file as UTF-8"
    character = f"U+{ord(text[position]):04X}" if position < len(text) else "a character"
    return span, f"{character} is not allowed in YAML", "remove the control character"


def describe_non_mapping(text: str) -> tuple[str, str]:
    """The message and help for a text that is not a mapping."""
    begin = "`recipe new sft` creates a recipe to start from"
    if not re.sub(r"(?m)^\s*(#.*)?$", "", text).strip():
        return "the file is empty" if not text.strip() else "the file contains only comments", begin
    return "a recipe is a mapping from names to sections", begin


def describe_parser_crash(error: Exception, text: str, file: str) -> tuple[Span, str, str]:
    """The error for an exception in the parser, such as an unknown YAML version."""
    lines = text.split("\n")
    line = next((number for number, one in enumerate(lines) if one.startswith("%")), 0)
    if lines[line].startswith("%"):
        return _span(file, line, 0), "unsupported YAML directive", "remove the line"
    message = f"the YAML parser failed on this text with {type(error).__name__}"
    return _span(file, 0, 0), message, "simplify the YAML"

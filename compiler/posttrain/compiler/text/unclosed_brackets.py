"""Finds unclosed brackets in YAML, and the places where they were probably meant to end.

The heuristic is indentation: if a line starts a block, with a key or a dash that is indented no further than
the line of the bracket, the bracket should have been closed before it. The scan runs on text that the parser
has rejected. It handles quotes, comments and block scalars, and it recognizes brackets only at the start of a
value or inside other brackets.
"""

import re
from collections.abc import Mapping

from posttrain.spec.record import record

# The columns of characters that recovery inserted into a text, by line.
InsertedColumns = Mapping[int, tuple[int, ...]]
_MAX_DEPTH = 100
_CLOSERS = {"{": "}", "[": "]"}
# The start of a block: a dash, or a key followed by a colon.
_BLOCK_START = re.compile(r"""\s*(-(\s|$)|(-\s+)*("[^"]*"|'[^']*'|[A-Za-z_][\w.-]*)\s*:(\s|$))""")
_QUOTED = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')""")
_COLON = re.compile(r":(?=\s|$)")
_DASH = re.compile(r"-\s+")
_SPACE = re.compile(r"\s*")
_CLOSER_ALONE = re.compile(r"\s*[\]}],?\s*(#.*)?$")
_NOT_KEY_START = tuple("#\"'{}[]&*!|>%@`")
_ANCHORS_AND_TAGS = re.compile(r"(?:[&!]\S*\s+)*")


@record
class Bracket:
    """An opening bracket: its place and the indentation of its line. Lines and columns count from 0."""

    char: str
    line: int
    column: int
    indent: int


@record
class UnclosedBrackets:
    """Unclosed brackets, outermost first, and the place to close them."""

    brackets: tuple[Bracket, ...]
    line: int
    column: int
    # The closing brackets, and a comma if the enclosing collection continues.
    closing: str
    separator: str = ""


def close_brackets(text: str, added: InsertedColumns, found: UnclosedBrackets) -> tuple[str, InsertedColumns]:
    """The text with these brackets closed, and the columns of all inserted characters."""
    lines = text.split("\n")
    inserted, line = found.closing + found.separator, lines[found.line]
    lines[found.line] = line[: found.column] + inserted + line[found.column :]
    before = added.get(found.line, ())
    moved = tuple(one + len(inserted) if one >= found.column else one for one in before)
    here = tuple(range(found.column, found.column + len(inserted)))
    return "\n".join(lines), {**added, found.line: (*moved, *here)}


def find_unclosed_brackets(text: str) -> UnclosedBrackets | None:
    """The first brackets still open where a block starts, another bracket ends, or the file ends."""
    return _BracketScanner(text.split("\n")).find_unclosed()


def _end_of_key(line: str, at: int) -> int | None:
    """The end of the key that starts at `at`, after its colon; None if no key starts there."""
    quoted = _QUOTED.match(line, at)
    if quoted is None and line[at : at + 1] in _NOT_KEY_START:
        return None
    end = quoted.end() if quoted else at
    colon = _COLON.search(line, end)
    if colon is None:
        return None
    between = line[end : colon.start()]
    return None if "#" in between or (quoted and between.strip()) else colon.end()


class _BracketScanner:
    """The state of the scan, line by line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.open: list[Bracket] = []
        self.quote = ""
        # Lines that are indented further than this belong to a block scalar.
        self.block_indent: int | None = None
        # Whether the nesting exceeds `_MAX_DEPTH`.
        self.too_deep = False
        # The position after the last character in brackets that is neither white space nor a comment.
        self.end = (0, 0)

    def find_unclosed(self) -> UnclosedBrackets | None:
        for number, line in enumerate(self.lines):
            found = self._scan_line(number, line)
            if found is not None or self.too_deep:
                return found
        return self._unclosed_from(0) if self.open and not self.quote else None

    def _scan_line(self, number: int, line: str) -> UnclosedBrackets | None:
        indent = len(line) - len(line.lstrip(" "))
        if self.block_indent is not None and (not line.strip() or indent > self.block_indent):
            return None
        self.block_indent = None
        if self.open and not self.quote:
            begins = _BLOCK_START.match(line) is not None
            open_brackets = (
                self._open_before(indent) if begins else self._open_around(line.strip()[:1], line, indent)
            )
            if open_brackets < len(self.open):
                return self._unclosed_from(open_brackets, goes_on=begins)
        start = 0 if self.open or self.quote else self._value_start(line, indent)
        return None if start is None else self._scan_flow(number, line, start, indent)

    def _open_before(self, indent: int) -> int:
        """The number of open brackets that can contain a key or dash with this indentation."""
        return next((place for place, one in enumerate(self.open) if one.indent >= indent), len(self.open))

    def _open_around(self, sign: str, line: str, indent: int) -> int:
        """The number of open brackets up to the one that a closer alone on its line matches."""
        if _CLOSER_ALONE.match(line) and self.open[-1].indent > indent:
            for place, one in enumerate(self.open):
                if one.indent == indent and _CLOSERS[one.char] == sign:
                    return place + 1
        return len(self.open)

    def _unclosed_from(self, open_brackets: int, goes_on: bool = False) -> UnclosedBrackets:
        """The brackets from this index on, closed after the last character read."""
        brackets, (line, column) = tuple(self.open[open_brackets:]), self.end
        closing = "".join(_CLOSERS[one.char] for one in reversed(brackets))
        comma = self.lines[line][column - 1 : column] == ","
        if comma and open_brackets:  # the comma separates the closed value from the next one
            return UnclosedBrackets(brackets, line, column - 1, closing)
        return UnclosedBrackets(brackets, line, column, closing, "," if open_brackets and goes_on else "")

    def _value_start(self, line: str, indent: int) -> int | None:
        """The start of the line's value, if the value is in brackets or quotes."""
        at = owner = indent
        while dash := _DASH.match(line, at):
            owner, at = at, dash.end()
        after = _end_of_key(line, at)
        if after is not None:
            space = _SPACE.match(line, after)
            owner, at = at, space.end() if space else after
        marks = _ANCHORS_AND_TAGS.match(line, at)
        at = marks.end() if marks else at
        first = line[at : at + 1]
        if first and first in "|>" and at > owner:
            self.block_indent = owner
        return at if first and first in "{[\"'" else None

    def _scan_flow(self, number: int, line: str, at: int, indent: int) -> UnclosedBrackets | None:
        """Scan within brackets or quotes, to the end of the line or of the value."""
        fresh = True
        while at < len(line) and not self.too_deep:
            if self.quote:
                at, fresh = self._scan_quoted(line, at), False
                self.end = (number, at)
                continue
            if not self.open and not fresh:
                return None
            sign = line[at]
            if sign == "#" and (at == 0 or line[at - 1].isspace()):
                return None
            if sign in "]}":
                found = self._close_bracket(number, at, sign)
                if found is not None:
                    return found
            if sign in _CLOSERS:
                self.open.append(Bracket(sign, number, at, indent))
                self.too_deep = self.too_deep or len(self.open) > _MAX_DEPTH
            elif sign in "\"'" and fresh:
                self.quote = sign
            ends_key = sign == ":" and (at + 1 == len(line) or line[at + 1].isspace())
            fresh = sign in "{[," or ends_key or (fresh and sign.isspace())
            at += 1
            if not sign.isspace():
                self.end = (number, at)
        return None

    def _close_bracket(self, number: int, at: int, sign: str) -> UnclosedBrackets | None:
        """Close the matching bracket; return the brackets inside it that are still open."""
        places = [place for place, one in enumerate(self.open) if _CLOSERS[one.char] == sign]
        if not places:
            return None
        place = places[-1]
        if place + 1 < len(self.open):
            left = self._unclosed_from(place + 1)
            return UnclosedBrackets(left.brackets, number, at, left.closing)
        self.open.pop()
        return None

    def _scan_quoted(self, line: str, at: int) -> int:
        """The position after the quoted text, or the end of the line if the text continues."""
        pattern = r"(?:[^\"\\]|\\.)*" if self.quote == '"' else r"(?:[^']|'')*"
        text = re.match(pattern, line[at:])
        end = at + (text.end() if text else 0)
        if line[end : end + 1] != self.quote:
            return len(line)
        self.quote = ""
        return end + 1

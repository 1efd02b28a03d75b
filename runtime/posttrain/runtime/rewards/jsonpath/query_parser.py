"""Parses the segments of a JSONPath query: names, indices, slices and strings."""

import re
from collections.abc import Callable
from typing import NoReturn

from posttrain.runtime.rewards.jsonpath.query_ast import (
    Filter,
    Query,
    Segment,
    Selector,
    Slice,
    Test,
    Wildcard,
)

MAX_INTEGER = 2**53 - 1
BLANK = re.compile(r"[ \t\n\r]*")
SHORTHAND = re.compile(r"[A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][\w\u0080-\ud7ff\ue000-\U0010ffff]*")
INTEGER = re.compile(r"0|-?[1-9][0-9]*")
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}
HEX = re.compile(r"[0-9A-Fa-f]{4}")


class QueryParser:
    """A cursor over the text of a query. The parser of filters is passed in as `condition`, which avoids a
    circular import."""

    def __init__(self, text: str, condition: Callable[["QueryParser"], Test]):
        self.text = text
        self.condition = condition
        self.position = 0
        self.depth = 0

    def fail(self, reason: str) -> NoReturn:
        raise ValueError(f"`{self.text[self.position : self.position + 30]}`: {reason}")

    def skip_blank(self) -> None:
        self.match(BLANK)

    def take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.position):
            self.position += len(mark)
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(f"expected `{mark}`")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return match

    def parse_query(self, from_root: bool) -> Query:
        segments: list[Segment] = []
        while True:
            start = self.position
            self.skip_blank()
            segment = self.parse_segment()
            if segment is None:
                self.position = start
                return Query(tuple(segments), from_root)
            segments.append(segment)

    def parse_segment(self) -> Segment | None:
        if self.take(".."):
            return Segment(
                self.parse_brackets() if self.take("[") else (self.parse_shorthand(),), descendant=True
            )
        if self.take("."):
            return Segment((self.parse_shorthand(),))
        return Segment(self.parse_brackets()) if self.take("[") else None

    def parse_shorthand(self) -> Selector:
        if self.take("*"):
            return Wildcard()
        name = self.match(SHORTHAND)
        return name[0] if name else self.fail("expected a name")

    def parse_brackets(self) -> tuple[Selector, ...]:
        self.skip_blank()
        selectors = [self.parse_selector()]
        self.skip_blank()
        while self.take(","):
            self.skip_blank()
            selectors.append(self.parse_selector())
            self.skip_blank()
        self.expect("]")
        return tuple(selectors)

    def parse_selector(self) -> Selector:
        here = self.text[self.position : self.position + 1]
        if here in ("'", '"'):
            return self.parse_string()
        if self.take("*"):
            return Wildcard()
        if self.take("?"):
            self.skip_blank()
            return Filter(self.condition(self))
        return self.parse_index_or_slice()

    def parse_index_or_slice(self) -> int | Slice:
        """An index, or a slice with up to three integers."""
        integers: list[int | None] = [self.parse_integer()]
        while len(integers) < 3:
            start = self.position
            self.skip_blank()
            if not self.take(":"):
                self.position = start
                break
            self.skip_blank()
            integers.append(self.parse_integer())
        if len(integers) > 1:
            return Slice(*[*integers, None][:3])
        return integers[0] if integers[0] is not None else self.fail("expected a name, an index or a filter")

    def parse_integer(self) -> int | None:
        match = self.match(INTEGER)
        if match is None:
            return None
        value = int(match[0]) if len(match[0]) < 20 else MAX_INTEGER + 1
        return value if abs(value) <= MAX_INTEGER else self.fail("index out of range (2^53)")

    def parse_string(self) -> str:
        quote = self.text[self.position]
        self.position += 1
        characters: list[str] = []
        while not self.take(quote):
            here = self.text[self.position : self.position + 1]
            if not here or here < " ":
                self.fail("a string is not closed, or contains a control character")
            self.position += 1
            characters.append(self.parse_escape(quote) if here == "\\" else here)
        return "".join(characters)

    def parse_escape(self, quote: str) -> str:
        here = self.text[self.position : self.position + 1]
        self.position += 1
        if here == quote:
            return quote
        if here == "u":
            return self.parse_unicode_escape()
        return ESCAPES[here] if here in ESCAPES else self.fail("unknown escape sequence")

    def parse_unicode_escape(self) -> str:
        high = self.parse_hex()
        if 0xDC00 <= high < 0xE000:
            self.fail("unpaired surrogate")
        if not 0xD800 <= high < 0xDC00:
            return chr(high)
        self.expect("\\u")
        low = self.parse_hex()
        if not 0xDC00 <= low < 0xE000:
            self.fail("unpaired surrogate")
        return chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00)

    def parse_hex(self) -> int:
        match = self.match(HEX)
        return int(match[0], 16) if match else self.fail("expected four hexadecimal digits")

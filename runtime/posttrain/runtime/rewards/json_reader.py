"""The steps of a JSON query, read from its text: names, places, slices, strings with their escapes."""

import re
from collections.abc import Callable
from typing import NoReturn

from posttrain.runtime.rewards.json_query import Every, Filter, Query, Segment, Selector, Slice, Test

INTEGER_AT_MOST = 2**53 - 1
BLANK = re.compile(r"[ \t\n\r]*")
SHORTHAND = re.compile(r"[A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][\w\u0080-\ud7ff\ue000-\U0010ffff]*")
INTEGER = re.compile(r"0|-?[1-9][0-9]*")
ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}
HEX = re.compile(r"[0-9A-Fa-f]{4}")


class Reader:
    """A cursor over the text of a query. The grammar of filters comes in as `condition`, and the modules do
    not import each other."""

    def __init__(self, text: str, condition: Callable[["Reader"], Test]):
        self.text = text
        self.condition = condition
        self.at = 0
        self.depth = 0

    def fail(self, reason: str) -> NoReturn:
        raise ValueError(f"`{self.text[self.at : self.at + 30]}`: {reason}")

    def blank(self) -> None:
        self.match(BLANK)

    def take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def need(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(f"`{mark}` was expected")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def query(self, from_root: bool) -> Query:
        segments: list[Segment] = []
        while True:
            start = self.at
            self.blank()
            segment = self.segment()
            if segment is None:
                self.at = start
                return Query(tuple(segments), from_root)
            segments.append(segment)

    def segment(self) -> Segment | None:
        if self.take(".."):
            return Segment(self.brackets() if self.take("[") else (self.shorthand(),), deep=True)
        if self.take("."):
            return Segment((self.shorthand(),))
        return Segment(self.brackets()) if self.take("[") else None

    def shorthand(self) -> Selector:
        if self.take("*"):
            return Every()
        name = self.match(SHORTHAND)
        return name[0] if name else self.fail("a name was expected")

    def brackets(self) -> tuple[Selector, ...]:
        self.blank()
        selectors = [self.selector()]
        self.blank()
        while self.take(","):
            self.blank()
            selectors.append(self.selector())
            self.blank()
        self.need("]")
        return tuple(selectors)

    def selector(self) -> Selector:
        here = self.text[self.at : self.at + 1]
        if here in ("'", '"'):
            return self.string()
        if self.take("*"):
            return Every()
        if self.take("?"):
            self.blank()
            return Filter(self.condition(self))
        return self.places()

    def places(self) -> int | Slice:
        """An index, or a slice with up to three of them."""
        found: list[int | None] = [self.integer()]
        while len(found) < 3:
            start = self.at
            self.blank()
            if not self.take(":"):
                self.at = start
                break
            self.blank()
            found.append(self.integer())
        if len(found) > 1:
            return Slice(*[*found, None][:3])
        return found[0] if found[0] is not None else self.fail("a name, an index or a filter was expected")

    def integer(self) -> int | None:
        found = self.match(INTEGER)
        if found is None:
            return None
        value = int(found[0]) if len(found[0]) < 20 else INTEGER_AT_MOST + 1
        return value if abs(value) <= INTEGER_AT_MOST else self.fail("an index beyond 2^53")

    def string(self) -> str:
        quote = self.text[self.at]
        self.at += 1
        made: list[str] = []
        while not self.take(quote):
            here = self.text[self.at : self.at + 1]
            if not here or here < " ":
                self.fail("a string is not closed, or holds a control character")
            self.at += 1
            made.append(self.escape(quote) if here == "\\" else here)
        return "".join(made)

    def escape(self, quote: str) -> str:
        here = self.text[self.at : self.at + 1]
        self.at += 1
        if here == quote:
            return quote
        if here == "u":
            return self.unicode()
        return ESCAPED[here] if here in ESCAPED else self.fail("no such escape")

    def unicode(self) -> str:
        high = self.hexadecimal()
        if 0xDC00 <= high < 0xE000:
            self.fail("half a character")
        if not 0xD800 <= high < 0xDC00:
            return chr(high)
        self.need("\\u")
        low = self.hexadecimal()
        if not 0xDC00 <= low < 0xE000:
            self.fail("half a character")
        return chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00)

    def hexadecimal(self) -> int:
        found = self.match(HEX)
        return int(found[0], 16) if found else self.fail("four hexadecimal digits were expected")

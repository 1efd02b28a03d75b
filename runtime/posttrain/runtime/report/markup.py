"""Builds HTML and SVG from plain values. All escaping happens here."""

import html
import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias


class Markup(str):
    """A string that is already HTML. `tag` escapes any other string."""

    __slots__ = ()


Child: TypeAlias = "str | float | Iterable[Child] | None"
Value: TypeAlias = "str | float | bool | None"

# A list with more rows than this gets a scroll frame.
SCROLL_ROWS = 30
_VOID = frozenset({"meta", "link", "input", "br", "hr"})
# Characters that a browser drops, misreads, or that reorder the text around them: control characters
# except tab and line feed, bidirectional embeddings and overrides, lone surrogates.
_UNSAFE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def escape_text(value: object) -> Markup:
    """Escape any value for HTML, with invisible characters made visible."""
    return Markup(html.escape(_UNSAFE_CHARACTERS.sub(_visible_character, str(value)), quote=True))


def _visible_character(match: re.Match[str]) -> str:
    """A visible replacement for an invisible character: a control picture, or its code point."""
    point = ord(match[0])
    if point < 0x20:
        return chr(0x2400 + point)
    return "\u2421" if point == 0x7F else f"\u27e8U+{point:04X}\u27e9"


def tag(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """An element. `class_` and `aria_label` set the attributes class and aria-label."""
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join_markup(children)}</{name}>")


def preformatted(words: str, *, reached: bool = True) -> Markup:
    """Text with its whitespace. `reached` makes it focusable, so that the keyboard can scroll it."""
    # HTML parsers drop the first line feed of a pre element, so this one protects the text's own.
    return tag("pre", Markup("\n"), words, dir="auto", tabindex=0 if reached else None)


def scroll_frame(name: str, *children: Child, tall: bool = False) -> Markup:
    """A frame in which wide or tall content scrolls."""
    named = "scroll tall" if tall else "scroll"
    return tag("div", *children, class_=named, tabindex=0, role="group", aria_label=name)


def join_markup(children: Child) -> Markup:
    """Concatenate children: Markup unchanged, other values escaped, None omitted."""
    match children:
        case None:
            return Markup()
        case Markup():
            return children
        case str():
            return escape_text(children)
        case int() | float():
            return Markup(_number(children))
        case _:
            return Markup("".join(join_markup(child) for child in children))


def _attribute(key: str, value: Value) -> str:
    name = key.rstrip("_").replace("_", "-")
    match value:
        case None | False:
            return ""
        case True:
            return f" {name}"
        case str():
            return f' {name}="{escape_text(value)}"'
        case _:
            return f' {name}="{_number(value)}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def script_json(value: Any) -> Markup:
    """JSON that is safe inside a script element: `<`, `>` and `&` are escaped."""
    packed = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(packed.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))

"""HTML and SVG from plain values: the one place where text is escaped."""

import html
import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias


class Markup(str):
    """Text that is HTML already. Any other text is escaped when it goes into a tag."""

    __slots__ = ()


Child: TypeAlias = "str | float | Iterable[Child] | None"
Value: TypeAlias = "str | float | bool | None"

# Rows of a list from which on it gets a frame to scroll in.
SCROLL_ROWS = 30
_VOID = frozenset({"meta", "link", "input", "br", "hr"})
# What a browser drops, misreads or lets reorder the text around it: controls but for tab and line
# feed, the embeddings and overrides of bidirectional text, halves of surrogate pairs.
_UNSAFE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def escape_text(value: object) -> Markup:
    """Any text as HTML that shows exactly that text."""
    return Markup(html.escape(_UNSAFE_CHARACTERS.sub(_visible_character, str(value)), quote=True))


def _visible_character(match: re.Match[str]) -> str:
    """A stand-in for a character that would not be seen: a control picture, or its number."""
    point = ord(match[0])
    if point < 0x20:
        return chr(0x2400 + point)
    return "\u2421" if point == 0x7F else f"\u27e8U+{point:04X}\u27e9"


def tag(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """An element. `class_` and `aria_label` give the attributes class and aria-label."""
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join_markup(children)}</{name}>")


def preformatted(words: str, *, reached: bool = True) -> Markup:
    """Text with its whitespace kept; `reached` by the keyboard where it may have to scroll."""
    # A parser drops the first line feed of a pre element: this one.
    return tag("pre", Markup("\n"), words, dir="auto", tabindex=0 if reached else None)


def scroll_frame(name: str, *children: Child, tall: bool = False) -> Markup:
    """What is too wide for a narrow page, or too tall for any, scrolls in a frame of its own."""
    named = "scroll tall" if tall else "scroll"
    return tag("div", *children, class_=named, tabindex=0, role="group", aria_label=name)


def join_markup(children: Child) -> Markup:
    """Children one after the other: markup as it is, all else escaped, None left out."""
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
    """JSON for a script element: nothing in it can end the element or open another."""
    packed = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(packed.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))

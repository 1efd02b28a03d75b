"""Text to the ways it can be read. Most answers have one reading; `1,234` and `1/2x` have two."""

import re
from functools import lru_cache

from posttrain.runtime.grading.answer import listing
from posttrain.runtime.grading.cursor import Mode
from posttrain.runtime.grading.dress import clean
from posttrain.runtime.grading.numerals import literal
from posttrain.runtime.grading.options import Options
from posttrain.runtime.grading.tokens import Token, tokenise
from posttrain.runtime.grading.tree import Node, TooLarge, Unknown, Unreadable, children, negative

PLAIN = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?")
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\d.,])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])")
DECIMAL_COMMA = re.compile(r"(?<![\d,.])(?!\d{1,3},\d{3}\b(?<!\b0,\d{3}))(\d+),(\d+)(?![\d,.])")
APPROXIMATELY = re.compile(r"(?<=[^\s])\s*\\(?:approx|simeq|thickapprox)(?![a-zA-Z])\s*(?=[^\s])")
EULER = re.compile(r"(?<![\d.])\d+e[+-]\d(?!\d)")
AND_MORE = re.compile(r"(\d\s*[A-Za-z]{2,})\s+and\s+(?=\d+(?:\.\d+)?\s*[A-Za-z]{2,}$)")
SLASH = re.compile(r"/\s*[\w\\({]")
UNIT_LETTER = re.compile(r"[\d}](?:\s|\\[ ,;])*(?:\\(?:mu|Omega)|[A-Za-z])(?:$|[\s^/*\\])")
SPACED_UNIT = re.compile(r"(?:\d|10\^\{-?\d+\})(?:\s+|\s*(?=\\))(?:\\(?:mu|Omega)|[A-Za-z])(?:$|[\s^/*\\])")
READINGS_AT_MOST = 6
HEIGHT_AT_MOST = 80


@lru_cache(maxsize=4096)
def readings(text: str, options: Options, reference: bool = False) -> tuple[Node, ...]:
    """The readings of an answer, the most natural first; empty when it is not mathematics.

    In a reference `5m` is 5 times m, and not five metres.

    Raises TooLarge. Cached, since references repeat.
    """
    cleaned = clean(text)
    if PLAIN.fullmatch(cleaned):
        number = literal(cleaned.lstrip("+-"))
        return (negative(number) if cleaned[0] == "-" else number,)
    found: list[Node] = []
    for variant, euler in _variants(cleaned, options):
        for mode in _modes(variant, reference):
            node = _read(variant, mode, euler)
            if node is not None and node not in found:
                found.append(node)
    return tuple(found[:READINGS_AT_MOST])


def unknown(text: str) -> str | None:
    """The notation that made a text without readings unreadable, where it is not plain words."""
    try:
        listing(tokenise(clean(text)), Mode(), 0)
    except Unknown as notation:
        return str(notation)
    except Unreadable:
        pass
    return None


def _read(text: str, mode: Mode, euler: bool) -> Node | None:
    try:
        tokens: list[Token] = tokenise(text, euler)
        return _shallow(listing(tokens, mode, 0)) if tokens else None
    except Unreadable:
        return None


def _shallow(node: Node) -> Node:
    """The node itself, or TooLarge: a chain such as 1/1/1/... makes a deep tree without any nesting."""
    level: tuple[Node, ...] = (node,)
    for _ in range(HEIGHT_AT_MOST):
        level = tuple(child for parent in level for child in children(parent))
        if not level:
            return node
    raise TooLarge(f"a tree higher than {HEIGHT_AT_MOST}")


def _variants(text: str, options: Options) -> list[tuple[str, bool]]:
    variants = APPROXIMATELY.split(text, maxsplit=1) if APPROXIMATELY.search(text) else [text]
    text = variants[0]
    if THOUSANDS.search(text):
        joined = THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
        bracketed = text.startswith(("(", "[", "{", "\\{"))
        variants = ([text, joined] if bracketed else [joined, text]) + variants[1:]
    if options.decimal_comma and not set("([{") & set(text) and DECIMAL_COMMA.search(text):
        variants.append(DECIMAL_COMMA.sub(r"\1.\2", text))
    if AND_MORE.search(text):
        variants.append(AND_MORE.sub(r"\1 ", text))
    made = [(variant, False) for variant in variants]
    if EULER.search(text):
        made.insert(0 if not text.startswith("1e") else 1, (text, True))
    return made


def _modes(text: str, reference: bool) -> list[Mode]:
    modes = [Mode()]
    if SLASH.search(text):
        modes.append(Mode(tight=True))
    if "log" in text:
        modes.append(Mode(common=True))
    if (SPACED_UNIT if reference else UNIT_LETTER).search(text):
        modes.append(Mode(units=True))
    return modes


__all__ = ["TooLarge", "readings"]

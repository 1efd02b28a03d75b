"""Parses a text to all its interpretations. Most answers have one, but `1,234` and `1/2x` have two."""

import re
from functools import lru_cache

from posttrain.grading.answer_parser import parse_listing
from posttrain.grading.expression_tree import (
    Node,
    ParseError,
    TooLarge,
    UnsupportedNotation,
    children,
    negate,
)
from posttrain.grading.latex_tokens import Token, tokenize
from posttrain.grading.number_literals import parse_number
from posttrain.grading.options import Options
from posttrain.grading.strip_wrapping import strip_wrapping
from posttrain.grading.token_cursor import ParseMode

PLAIN_NUMBER = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?")
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])|(?<![\d.,])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])")
DECIMAL_COMMA = re.compile(r"(?<![\d,.])(?!\d{1,3},\d{3}\b(?<!\b0,\d{3}))(\d+),(\d+)(?![\d,.])")
APPROXIMATELY = re.compile(r"(?<=[^\s])\s*\\(?:approx|simeq|thickapprox)(?![a-zA-Z])\s*(?=[^\s])")
EULER = re.compile(r"(?<![\d.])\d+e[+-]\d(?!\d)")
COMPOUND_QUANTITY = re.compile(r"(\d\s*[A-Za-z]{2,})\s+and\s+(?=\d+(?:\.\d+)?\s*[A-Za-z]{2,}$)")
SLASH = re.compile(r"/\s*[\w\\({]")
UNIT_LETTER = re.compile(r"[\d}](?:\s|\\[ ,;])*(?:\\(?:mu|Omega)|[A-Za-z])(?:$|[\s^/*\\])")
SPACED_UNIT = re.compile(r"(?:\d|10\^\{-?\d+\})(?:\s+|\s*(?=\\))(?:\\(?:mu|Omega)|[A-Za-z])(?:$|[\s^/*\\])")
MAX_INTERPRETATIONS = 6
MAX_HEIGHT = 80


@lru_cache(maxsize=4096)
def interpretations(text: str, options: Options, reference: bool = False) -> tuple[Node, ...]:
    """The interpretations of an answer, the most likely first. Empty if the text is not mathematics.

    In a reference, `5m` is 5 times m, not five meters. Raises TooLarge. Results are cached, because
    references repeat.
    """
    cleaned = strip_wrapping(text)
    if PLAIN_NUMBER.fullmatch(cleaned):
        number = parse_number(cleaned.lstrip("+-"))
        return (negate(number) if cleaned[0] == "-" else number,)
    nodes: list[Node] = []
    for variant, euler in _variants(cleaned, options):
        for mode in _parse_modes(variant, reference):
            node = _parse(variant, mode, euler)
            if node is not None and node not in nodes:
                nodes.append(node)
    return tuple(nodes[:MAX_INTERPRETATIONS])


def unsupported_notation(text: str) -> str | None:
    """The unsupported notation because of which a text has no interpretation, or None for plain words."""
    try:
        parse_listing(tokenize(strip_wrapping(text)), ParseMode(), 0)
    except UnsupportedNotation as notation:
        return str(notation)
    except ParseError:
        pass
    return None


def _parse(text: str, mode: ParseMode, euler: bool) -> Node | None:
    try:
        tokens: list[Token] = tokenize(text, euler)
        return _check_height(parse_listing(tokens, mode, 0)) if tokens else None
    except ParseError:
        return None


def _check_height(node: Node) -> Node:
    """Return the node. Raise TooLarge for a deep tree, such as that of a chain 1/1/1/... without brackets."""
    level: tuple[Node, ...] = (node,)
    for _ in range(MAX_HEIGHT):
        level = tuple(child for parent in level for child in children(parent))
        if not level:
            return node
    raise TooLarge(f"an expression tree higher than {MAX_HEIGHT}")


def _variants(text: str, options: Options) -> list[tuple[str, bool]]:
    variants = APPROXIMATELY.split(text, maxsplit=1) if APPROXIMATELY.search(text) else [text]
    text = variants[0]
    if THOUSANDS.search(text):
        joined = THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
        bracketed = text.startswith(("(", "[", "{", "\\{"))
        variants = ([text, joined] if bracketed else [joined, text]) + variants[1:]
    if options.decimal_comma and not set("([{") & set(text) and DECIMAL_COMMA.search(text):
        variants.append(DECIMAL_COMMA.sub(r"\1.\2", text))
    if COMPOUND_QUANTITY.search(text):
        variants.append(COMPOUND_QUANTITY.sub(r"\1 ", text))
    result = [(variant, False) for variant in variants]
    if EULER.search(text):
        result.insert(0 if not text.startswith("1e") else 1, (text, True))
    return result


def _parse_modes(text: str, reference: bool) -> list[ParseMode]:
    modes = [ParseMode()]
    if SLASH.search(text):
        modes.append(ParseMode(tight_products=True))
    if "log" in text:
        modes.append(ParseMode(log_base_10=True))
    if (SPACED_UNIT if reference else UNIT_LETTER).search(text):
        modes.append(ParseMode(unit_letters=True))
    return modes


__all__ = ["TooLarge", "interpretations"]

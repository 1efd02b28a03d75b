"""Parses quantities: percentages, amounts of money, and values with a unit or a noun."""

from collections.abc import Callable
from fractions import Fraction

from posttrain.grading.brackets import token_symbol
from posttrain.grading.doubt_words import is_doubtful_noun
from posttrain.grading.expression_tree import (
    Node,
    Number,
    ParseError,
    Percent,
    Product,
    Quantity,
    Sum,
    negate,
)
from posttrain.grading.latex_tokens import Token
from posttrain.grading.token_cursor import ParseMode
from posttrain.grading.units import parse_unit

CURRENCIES = {"$": "usd", "£": "gbp", "€": "eur", "¥": "yen", "₹": "inr"}
CURRENCY_WORDS = {"USD": "usd", "EUR": "eur", "GBP": "gbp", "Rs": "inr", "Rs.": "inr", "INR": "inr"}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
PERCENT_WORDS = frozenset(("percent", "per cent", "percents", "percentage", "pct"))
UNIT_MARK_NAMES = "text roman letter ^ number / { } ( ) cdot circ - mu Omega *"
UNIT_MARKS = frozenset(UNIT_MARK_NAMES.split())
MAX_WORDS = 5
VERB_NAMES = "is are was were be not isn't aren't or maybe if when then because so has have had"
VERBS = frozenset(VERB_NAMES.split())
AMOUNT_KINDS = frozenset(("number", "command"))
ParseTokens = Callable[[list[Token]], Node]


def parse_quantity(tokens: list[Token], mode: ParseMode, parse_tokens: ParseTokens) -> Node:
    if not tokens:
        return parse_tokens(tokens)
    marks = [token_symbol(token) for token in tokens]
    if marks[0] == "-" and len(tokens) > 1 and marks[1] in CURRENCIES:
        return negate_quantity(parse_quantity(tokens[1:], mode, parse_tokens))
    currency = CURRENCIES.get(marks[0]) or CURRENCY_WORDS.get(tokens[0].text)
    if currency and len(tokens) > 1:
        return _with_currency(currency, parse_quantity(tokens[1:], mode, parse_tokens))
    if marks[-1] == "%" or (marks[-1] == "text" and tokens[-1].text.lower() in PERCENT_WORDS):
        return Percent(parse_tokens(tokens[:-1]))
    if len(tokens) > 1 and marks[-1] in CURRENCIES:
        return Quantity(parse_tokens(tokens[:-1]), CURRENCIES[marks[-1]])
    start = _unit_start(tokens, marks, mode)
    return parse_tokens(tokens) if start is None else _with_unit(tokens, start, parse_tokens)


def negate_quantity(node: Node) -> Node:
    return Quantity(negate(node.value), node.unit) if isinstance(node, Quantity) else negate(node)


def _with_currency(currency: str, node: Node) -> Node:
    return Quantity(node.value if isinstance(node, Quantity) else node, currency)


def _unit_start(tokens: list[Token], marks: list[str], mode: ParseMode) -> int | None:
    """The index at which the unit at the end of this run starts, or None."""
    degrees = _degrees_start(marks)
    if degrees is not None:
        return degrees
    for place, name in enumerate(marks):
        begins = name in ("text", "roman") or (mode.unit_letters and name in ("letter", "mu", "Omega"))
        if begins and place > 0 and "_" not in marks[max(0, place - 2) : place]:
            fits = all(later in UNIT_MARKS for later in marks[place:])
            known = name == "text" or parse_unit(unit_text(tokens[place:])) is not None
            return place if fits and known else None
    return None


def _degrees_start(marks: list[str]) -> int | None:
    """The index of `^ \\circ` or `^{\\circ}` at the end, optionally followed by C or F, or None."""
    if marks.count("circ") != 1:
        return None
    place = marks.index("circ")
    tail = [name for name in marks[place + 1 :] if name != "}"]
    start = place - 1 - (marks[place - 1 : place] == ["{"])
    fits = start > 0 and marks[start] == "^" and tail in ([], ["letter"], ["roman"])
    return start if fits and not set(marks[:start]) & {"sin", "cos", "tan", "cot", "sec", "csc"} else None


def _with_unit(tokens: list[Token], start: int, parse_tokens: ParseTokens) -> Node:
    second_amount = next((n for n in range(start + 1, len(tokens)) if _starts_amount(tokens, n)), None)
    if second_amount is not None and tokens[-1].kind in ("text", "roman"):
        return _add_quantities(
            _with_unit(tokens[:second_amount], start, parse_tokens),
            _with_unit(tokens[second_amount:], 1, parse_tokens),
        )
    value, unit = parse_tokens(tokens[:start]), unit_text(tokens[start:])
    remark = any(token.kind == "(" for token in tokens[start:])
    if parse_unit(unit) is None and (remark or not _is_counted_noun(unit, tokens[:start])):
        raise ParseError("words that are not a unit")
    first, _, rest = unit.partition(" ")
    if first.lower() in SCALES:
        value, unit = Product((value, Number(Fraction(SCALES[first.lower()])))), rest.removeprefix("of ")
    if unit.lower() in PERCENT_WORDS:
        return Percent(value)
    return Quantity(value, unit) if unit else value


def _is_counted_noun(unit: str, core: list[Token]) -> bool:
    """Whether unknown words after a number can be a counted noun: `red apples`, but not `is the answer`."""
    words = unit.lower().split()
    fits = len(words) <= MAX_WORDS and len(set(words)) == len(words) and not set(words) & VERBS
    return fits and not is_doubtful_noun(unit) and any(t.kind in AMOUNT_KINDS for t in core)


def _starts_amount(tokens: list[Token], place: int) -> bool:
    return tokens[place].kind == "number" and tokens[place - 1].kind in ("text", "roman")


def _add_quantities(first: Node, second: Node) -> Node:
    """The sum of two quantities in the first unit, as for 2 hours 30 minutes."""
    if isinstance(first, Quantity) and isinstance(second, Quantity):
        one, two = parse_unit(first.unit), parse_unit(second.unit)
        if one and two and one.dimensions == two.dimensions:
            part = Product((second.value, Number(two.factor / one.factor)))
            return Quantity(Sum((first.value, part)), first.unit)
    raise ParseError("two quantities in a row")


def unit_text(tokens: list[Token]) -> str:
    """The unit as one string: `cm^2`, `km/h`, `square feet`, `degC`."""
    pieces: list[str] = []
    for token in tokens:
        if token.kind in ("{", "}", "(", ")"):
            continue
        text = {"circ": "deg", "cdot": "*", "mu": "u", "Omega": "ohm"}.get(token_symbol(token), token.text)
        glued = not pieces or text in "^/*-" or pieces[-1][-1:] in "^/*-" or pieces[-1] in ("deg", "u")
        pieces.append(text if glued else " " + text)
    return "".join(pieces).removeprefix("^").replace("^ ", "^").strip(" .")

"""Parses number literals: integers, decimals, scientific notation, mixed numbers, periods, bases."""

from fractions import Fraction

from posttrain.grading.expression_tree import BasedNumber, Node, Number, ParseError, Symbol, TooLarge
from posttrain.grading.latex_tokens import Token

MAX_EXPONENT = 5000
BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
              "ten": 10, "twelve": 12, "sixteen": 16}  # fmt: skip


def parse_number(text: str, truncated: bool = False) -> Number:
    mantissa, _, exponent = text.partition("e")
    if not mantissa.replace(".", "", 1).isdecimal():  # 4C without its base
        raise ParseError("invalid number")
    if len(exponent) > 6 or (exponent and abs(int(exponent)) > MAX_EXPONENT):
        raise TooLarge(f"an exponent larger than {MAX_EXPONENT}")
    whole, dot, decimals = mantissa.partition(".")
    shift = int(exponent or 0) - len(decimals)
    digits = int(whole + decimals or "0")
    value = Fraction(digits * 10**shift) if shift >= 0 else Fraction(digits, 10**-shift)
    return Number(value, max(0, -shift) if dot or exponent else None, truncated)


def parse_repeating(text: str, period: str) -> Number:
    """A repeating decimal: 0.1 with the period 6 is 1/6."""
    whole, dot, decimals = text.partition(".")
    if not dot or not period.isdigit():
        raise ParseError("invalid repeating decimal")
    before, cycle = 10 ** len(decimals), 10 ** len(period) - 1
    return Number(Fraction(int(whole + decimals or "0")) / before + Fraction(int(period), cycle * before))


def parse_mixed_part(whole: Token, tokens: list[Token], at: int) -> tuple[int, Number | None]:
    """The fraction part of a mixed number, after the number of its tokens; (0, None) if there is none."""
    if not whole.text.isdigit() or at >= len(tokens):
        return 0, None
    rest = tokens[at:]
    texts = [token.text for token in rest[:7]]
    if texts[0] == "frac":
        return _parse_latex_part(texts)
    if len(texts) >= 3 and rest[0].spaced and texts[1] == "/" and _is_proper(texts[0], texts[2]):
        return 3, Number(Fraction(int(texts[0]), int(texts[2])))
    return 0, None


def _parse_latex_part(texts: list[str]) -> tuple[int, Number | None]:
    match texts:
        case ["frac", "{", over, "}", "{", under, "}", *_] if _is_proper(over, under):
            return 7, Number(Fraction(int(over), int(under)))
        case ["frac", both, *_] if len(both) == 2 and both.isdigit() and _is_proper(both[0], both[1]):
            return 2, Number(Fraction(int(both[0]), int(both[1])))
        case ["frac", over, "{", under, "}", *_] if len(over) == 1 and _is_proper(over, under):
            return 5, Number(Fraction(int(over), int(under)))
        case _:
            return 0, None


def _is_proper(over: str, under: str) -> bool:
    return over.isdigit() and under.isdigit() and int(over) < int(under)


def parse_based(digits: str, base: str) -> Node:
    value = BASE_WORDS.get(base) or (int(base) if base.isdigit() and len(base) < 3 else 0)
    if 2 <= value <= 36 and all(int(digit, 36) < value for digit in digits if digit != "."):
        return BasedNumber(digits, value)
    return Symbol(f"{digits}_{base}")

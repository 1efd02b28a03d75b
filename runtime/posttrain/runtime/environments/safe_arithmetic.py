"""Exact arithmetic for expressions from a model: the four operations and parentheses, without eval."""

import re
from fractions import Fraction

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|[-+*/()])")
_MAX_CHARACTERS = 200
_MAX_MAGNITUDE = 10**100


def evaluate_expression(text: str) -> Fraction:
    """Evaluate an expression. Raises ValueError if it is invalid or too large."""
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"the expression is longer than {_MAX_CHARACTERS} characters")
    tokens = _tokens(text)
    value = _sum(tokens)
    if tokens:
        raise ValueError(f"unexpected `{tokens[0]}`")
    return value


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"invalid character `{text[position:].strip()[:1]}`")
        tokens.append(match[1])
        position = match.end()
    return tokens


def _sum(tokens: list[str]) -> Fraction:
    value = _product(tokens)
    while tokens and tokens[0] in "+-":
        value = value + _product(tokens) if tokens.pop(0) == "+" else value - _product(tokens)
    return value


def _product(tokens: list[str]) -> Fraction:
    value = _factor(tokens)
    while tokens and tokens[0] in "*/":
        value = value * _factor(tokens) if tokens.pop(0) == "*" else value / _factor(tokens)
        if max(abs(value.numerator), value.denominator) > _MAX_MAGNITUDE:
            raise ValueError("the value is too large")
    return value


def _factor(tokens: list[str]) -> Fraction:
    if not tokens:
        raise ValueError("unexpected end of the expression")
    first = tokens.pop(0)
    if first == "-":  # unary minus
        return -_factor(tokens)
    if first == "(":
        value = _sum(tokens)
        if not tokens or tokens.pop(0) != ")":
            raise ValueError("unclosed parenthesis")
        return value
    if first in "+*/)":
        raise ValueError(f"unexpected `{first}`")
    return Fraction(first)

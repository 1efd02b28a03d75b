"""Exact arithmetic on what a model writes: the four operations and brackets, and nothing else."""

import re
from fractions import Fraction

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|[-+*/()])")
_MAX_CHARACTERS = 200  # characters
_MAX_MAGNITUDE = 10**100


def evaluate_expression(text: str) -> Fraction:
    """The value of an expression. ValueError says what is wrong with it."""
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"an expression has at most {_MAX_CHARACTERS} characters")
    waiting = _tokens(text)
    value = _sum(waiting)
    if waiting:
        raise ValueError(f"`{waiting[0]}` was not expected")
    return value


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"`{text[place:].strip()[:1]}` cannot be read")
        found.append(match[1])
        place = match.end()
    return found


def _sum(waiting: list[str]) -> Fraction:
    value = _product(waiting)
    while waiting and waiting[0] in "+-":
        value = value + _product(waiting) if waiting.pop(0) == "+" else value - _product(waiting)
    return value


def _product(waiting: list[str]) -> Fraction:
    value = _factor(waiting)
    while waiting and waiting[0] in "*/":
        value = value * _factor(waiting) if waiting.pop(0) == "*" else value / _factor(waiting)
        if max(abs(value.numerator), value.denominator) > _MAX_MAGNITUDE:
            raise ValueError("the value is too large")
    return value


def _factor(waiting: list[str]) -> Fraction:
    if not waiting:
        raise ValueError("the expression ends too early")
    first = waiting.pop(0)
    if first == "-":  # a sign, which belongs to what follows
        return -_factor(waiting)
    if first == "(":
        value = _sum(waiting)
        if not waiting or waiting.pop(0) != ")":
            raise ValueError("a bracket is not closed")
        return value
    if first in "+*/)":
        raise ValueError(f"`{first}` was not expected")
    return Fraction(first)

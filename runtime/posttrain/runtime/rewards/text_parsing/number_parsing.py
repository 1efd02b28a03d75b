"""Finds numbers in text, and parses them exactly.

Commas may separate thousands. A sign belongs to a number unless it is an operator between two numbers.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

_NUMBER = re.compile(
    r"(?:(?<![\w)\].])[-+\u2212])?(?:\d{1,3}(?:,\d{3}){1,40}(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3}(?!\d))?"
    r"|(?:(?<![\w)\].])[-+\u2212])?(?<![\d.])\.\d+(?:[eE][-+]?\d{1,3}(?!\d))?"
)
_MAX_LENGTH = 1000


def find_numbers(text: str) -> Iterator[str]:
    """Yield the numbers in a text as written, from left to right."""
    for match in _NUMBER.finditer(text):
        yield match[0]


def normalize_number(number: str) -> str:
    """A number without thousands separators, with an ASCII minus sign."""
    return number.replace(",", "").replace("\u2212", "-").removeprefix("+")


@lru_cache(maxsize=16_384)  # several nodes read the same answers
def read_number(text: str) -> Fraction | None:
    """The value of a text that is one number, with optional spaces and a dollar sign; else None."""
    number = text.strip().removeprefix("$").strip()
    if len(number) > _MAX_LENGTH or _NUMBER.fullmatch(number) is None:
        return None
    return Fraction(normalize_number(number))

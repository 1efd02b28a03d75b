"""Numbers as they stand in text: found in a sentence, and read exactly.

Thousands may be parted by commas. A sign belongs to a number unless it stands between two of them.
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
    """The numbers of a text as they stand there, from the left."""
    for match in _NUMBER.finditer(text):
        yield match[0]


def normalize_number(number: str) -> str:
    """A number without the commas between its thousands, its minus an ordinary one."""
    return number.replace(",", "").replace("\u2212", "-").removeprefix("+")


@lru_cache(maxsize=16_384)  # several nodes read the same answers
def read_number(text: str) -> Fraction | None:
    """The value of a text that is one number, and nothing beside it but spaces or a dollar sign."""
    written = text.strip().removeprefix("$").strip()
    if len(written) > _MAX_LENGTH or _NUMBER.fullmatch(written) is None:
        return None
    return Fraction(normalize_number(written))

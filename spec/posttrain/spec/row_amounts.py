"""Amounts of rows: an integer is a count, a decimal in (0, 1] or a percentage is a share of the rows.

The type of the number decides, not its size: 1 is one row, 1.0 is all rows. Shares are exact fractions of
the decimal as written, so that rounding depends neither on binary floating point nor on the database.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import WithJsonSchema

from posttrain.spec.field_types import checked_by

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")
_MAX_DECIMALS = 12
_FORMS = (
    "an integer is a number of rows, a decimal above 0 and up to 1 or a percentage such as 25% is a share"
)
AMOUNT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": r"^\d+(\.\d+)?%$"},
    ],
    "description": "A number of rows (an integer), or a share of them: a decimal up to 1.0, or a percentage.",
}


def parse_amount(value: Any) -> int | Fraction:
    """A count (int) or a share (Fraction, at most 1). Raise ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"{value} is not a number of rows: {_FORMS}")
        return value
    share = _share(value)
    if share is None:
        raise ValueError(f"{_shown(value)} is not an amount of rows: {_FORMS}")
    if not 0 < share <= 1:
        raise ValueError(f"{_shown(value)} is not a share of the rows: {_FORMS}{_integer_hint(value)}")
    if share.denominator > 10**_MAX_DECIMALS:
        raise ValueError(f"{_shown(value)} has more than {_MAX_DECIMALS} decimal places")
    return share


def _share(value: Any) -> Fraction | None:
    if isinstance(value, float) and abs(value) < float("inf"):
        return Fraction(repr(value))
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return Fraction(percent[1]) / 100 if percent else None


def _integer_hint(value: Any) -> str:
    whole = isinstance(value, float) and value > 1 and value.is_integer()
    return f"; for {int(value)} rows write {int(value)}" if whole else ""


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text[:40]}`"


# The value as written; `parse_amount` gives its meaning.
RowAmount = Annotated[int | float | str, checked_by(parse_amount), WithJsonSchema(AMOUNT_SCHEMA)]


def rows_taken(amount: int | Fraction, total: int) -> int:
    """The rows that an amount takes: a share is rounded to the nearest row, halves up, at least one."""
    if isinstance(amount, int):
        return amount
    doubled = 2 * amount.denominator
    return min(total, max(1, (2 * amount.numerator * total + amount.denominator) // doubled))


def part_sizes(amounts: Mapping[str, int | Fraction], total: int, *, rest: str) -> dict[str, int]:
    """The number of rows of each part and of the rest. Their sum is the total.

    Shares are rounded by the largest remainder, ties in the order of the parts, the rest last. Each part has
    at least one row. Raise ValueError when nothing remains for the rest.
    """
    quotas: dict[str, Fraction] = {
        name: Fraction(total) * one if isinstance(one, Fraction) else Fraction(one)
        for name, one in amounts.items()
    }
    quotas[rest] = total - sum(quotas.values(), start=Fraction(0))
    sizes = {name: int(quota // 1) for name, quota in quotas.items()}
    by_remainder = sorted(quotas, key=lambda name: sizes[name] - quotas[name])  # stable: ties in order
    for name in by_remainder[: total - sum(sizes.values())]:
        sizes[name] += 1
    for name in amounts:
        if sizes[name] < 1:
            sizes[name], sizes[rest] = 1, sizes[rest] - 1
    if sizes[rest] < 1:
        taken = total - sizes[rest]
        raise ValueError(f"the parts take {taken} rows, but the data has only {total}")
    return sizes

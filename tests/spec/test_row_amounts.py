"""Amounts of rows: a count or a share by the type of the number, and exact rounding."""

import math
import re
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.row_amounts import AMOUNT_SCHEMA, RowAmount, parse_amount, part_sizes, rows_taken
from posttrain.spec.validation import DeclarationError, parse_declaration


class Amounts(Declaration):
    rows: RowAmount = Field(description="Rows.")


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (1, 1),
        (1000, 1000),
        (1.0, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (1e-3, Fraction(1, 1000)),
        ("25%", Fraction(1, 4)),
        ("100%", Fraction(1)),
        ("12.5%", Fraction(1, 8)),
    ],
)
def test_the_type_of_the_number_decides(value: Any, amount: int | Fraction):
    found = parse_amount(value)
    assert (type(found), found) == (type(amount), amount)
    assert parse_declaration(Amounts, {"rows": value}).rows == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, "`1.5` is not a share of the rows"),
        (10.0, "for 10 rows write 10"),
        (0, "0 is not a number of rows"),
        (-1, "-1 is not a number of rows"),
        (0.0, "`0.0` is not a share"),
        (-0.5, "`-0.5` is not a share"),
        ("0%", "`0%` is not a share"),
        ("120%", "`120%` is not a share"),
        ("10 %", "`10 %` is not an amount of rows"),
        ("1k", "`1k` is not an amount of rows"),
        ("-5%", "`-5%` is not an amount of rows"),
        (True, "`true` is not an amount of rows"),
        (None, "is not an amount of rows"),
        ([1], "is not an amount of rows"),
        (float("nan"), "is not an amount of rows"),
        (float("inf"), "is not an amount of rows"),
        (1e-13, "more than 12 decimal places"),
    ],
)
def test_other_values_are_errors(value: Any, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_amount(value)
    with pytest.raises(DeclarationError):
        parse_declaration(Amounts, {"rows": value})


def test_the_schema_of_the_field_is_that_of_the_steps():
    assert TypeAdapter(RowAmount).json_schema() == AMOUNT_SCHEMA


@given(st.decimals("0.000001", "1", places=6), st.integers(1, 10**7))
def test_a_share_is_rounded_as_decimal_arithmetic_rounds_it(share: Decimal, total: int):
    expected = max(1, int((share * total).quantize(Decimal(1), ROUND_HALF_UP)))
    assert rows_taken(parse_amount(float(share)), total) == expected


SHARES = st.lists(st.integers(1, 300).map(lambda n: Fraction(n, 1000)), min_size=1, max_size=3)


@given(SHARES, st.integers(20, 5000))
def test_parts_lose_no_row_and_differ_from_their_share_by_less_than_one(shares: list[Fraction], total: int):
    amounts: dict[str, int | Fraction] = {f"p{number}": share for number, share in enumerate(shares)}
    try:
        sizes = part_sizes(amounts, total, rest="train")
    except ValueError:
        assert sum(max(1, math.floor(share * total)) for share in shares) + len(shares) >= total
        return
    assert sum(sizes.values()) == total
    assert min(sizes.values()) >= 1
    for part, share in amounts.items():
        assert abs(sizes[part] - share * total) < 1 or sizes[part] == 1


def test_remainders_go_to_the_largest_and_ties_to_the_first():
    assert part_sizes({"a": Fraction(1, 4), "b": Fraction(1, 4)}, 10, rest="r") == {"a": 3, "b": 2, "r": 5}
    assert part_sizes({"a": Fraction(7, 100)}, 100, rest="r") == {"a": 7, "r": 93}
    assert part_sizes({"a": Fraction(1, 100)}, 20, rest="r") == {"a": 1, "r": 19}
    assert part_sizes({"a": 5, "b": Fraction(1, 3)}, 10, rest="r") == {"a": 5, "b": 3, "r": 2}


@pytest.mark.parametrize("amounts", [{"a": 10}, {"a": 12}, {"a": 5, "b": Fraction(1, 2)}])
def test_parts_that_leave_no_row_are_an_error(amounts: dict[str, int | Fraction]):
    with pytest.raises(ValueError, match="but the data has only 10"):
        part_sizes(amounts, 10, rest="train")

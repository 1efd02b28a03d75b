"""Whether two numbers are equal, exactly or within a tolerance."""

import math
from fractions import Fraction
from typing import Any

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import read_number
from posttrain.spec.extension import Operand, Params, RewardOp


class Numeric(Params):
    abs_tol: float = Field(default=0.0, ge=0, description="Absolute tolerance.")
    rel_tol: float = Field(
        default=0.0, ge=0, description="Relative tolerance, as a share of the reference number."
    )


EXTENSION = RewardOp(
    name="numeric",
    summary="True if two numbers are equal within a tolerance, computed in exact arithmetic. Either may be"
    " text; text that is not a number equals nothing. Abstains if `to` is absent.",
    params=Numeric,
    operands={
        "of": Operand(description="The number to compare, or text to convert."),
        "to": Operand(description="The reference number, or text to convert."),
    },
    yields="boolean",
)


def run(params: Numeric, operands: Operands, batch: Batch) -> list[bool | None]:
    # Decimal tolerances: 0.1 is a tenth, not the nearest float.
    absolute, relative = Fraction(str(params.abs_tol)), Fraction(str(params.rel_tol))
    pairs = zip(operands["of"], operands["to"], strict=True)
    return [
        None if to is None else _is_close(exact_fraction(of), exact_fraction(to), absolute, relative)
        for of, to in pairs
    ]


def _is_close(of: Fraction | None, to: Fraction | None, absolute: Fraction, relative: Fraction) -> bool:
    if of is None or to is None:
        return False
    if of == to:
        return True
    # In integers: adding and comparing fractions takes several times as long.
    parts = of.denominator * to.denominator
    off = abs(of.numerator * to.denominator - to.numerator * of.denominator)
    reach = abs(to.numerator) * of.denominator
    return (
        off * relative.denominator <= relative.numerator * reach
        or off * absolute.denominator <= absolute.numerator * parts
    )


def exact_fraction(value: Any) -> Fraction | None:
    """The exact value of a number in its decimal notation, or of a text that is a number."""
    if isinstance(value, str):
        return read_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Fraction(str(value))

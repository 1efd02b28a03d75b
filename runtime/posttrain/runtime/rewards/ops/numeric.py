"""Whether a number is another, exactly or within a tolerance."""

import math
from fractions import Fraction
from typing import Any

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import read_number
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp


class Numeric(Params):
    abs_tol: float = field(default=0.0, ge=0, description="How far off it may be.")
    rel_tol: float = field(
        default=0.0, ge=0, description="How far off it may be as a share of the number compared with."
    )


EXTENSION = RewardOp(
    name="numeric",
    summary="True when a text or number is a number within a tolerance of another; computed exactly. To a"
    " text that is no number nothing is near; it abstains when there is nothing to compare with.",
    params=Numeric,
    operands={
        "of": Operand(description="The number that is compared, or text that is one."),
        "to": Operand(description="The number that it must be near, or text that is one."),
    },
    yields="boolean",
)


def run(params: Numeric, operands: Operands, batch: Batch) -> list[bool | None]:
    # The tolerances as they are written: 0.1 is a tenth, not the float nearest to it.
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
    # In whole numbers: to add and compare fractions takes several times as long.
    parts = of.denominator * to.denominator
    off = abs(of.numerator * to.denominator - to.numerator * of.denominator)
    reach = abs(to.numerator) * of.denominator
    return (
        off * relative.denominator <= relative.numerator * reach
        or off * absolute.denominator <= absolute.numerator * parts
    )


def exact_fraction(value: Any) -> Fraction | None:
    """The exact value of a number, or of a text that is one; a number's is as it would be written."""
    if isinstance(value, str):
        return read_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Fraction(str(value))

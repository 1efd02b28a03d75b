"""The product of numbers."""

import math
from collections.abc import Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import combine_rows
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    whole = Interval(1.0, 1.0)
    for part in operands["of"]:
        whole = whole.times(part)
    return whole


EXTENSION = RewardOp(
    name="product",
    summary="The product of several numbers. Abstains if one of them does.",
    operands={"of": Operand(type="number", many=True, description="The numbers to multiply.")},
    yields="number",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    def multiply(row: Sequence[float]) -> float:
        return float(math.prod(row, start=1.0))

    return combine_rows(multiply, operands["of"])

"""The smallest of numbers."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import combine_rows
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    parts = operands["of"]
    return Interval(min(part.low for part in parts), min(part.high for part in parts))


EXTENSION = RewardOp(
    name="min",
    summary="The smallest of its parts; it abstains when one of them does.",
    operands={
        "of": Operand(type="number", many=True, description="The numbers of which the smallest is taken.")
    },
    yields="number",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return combine_rows(lambda row: float(min(row)), operands["of"])

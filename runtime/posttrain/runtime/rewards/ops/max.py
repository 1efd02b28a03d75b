"""The largest of numbers."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import combine_rows
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    parts = operands["of"]
    return Interval(max(part.low for part in parts), max(part.high for part in parts))


EXTENSION = RewardOp(
    name="max",
    summary="The largest of its parts; it abstains when one of them does.",
    operands={
        "of": Operand(type="number", many=True, description="The numbers of which the largest is taken.")
    },
    yields="number",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return combine_rows(lambda row: float(max(row)), operands["of"])

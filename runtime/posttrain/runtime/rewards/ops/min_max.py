"""The smallest and the largest of several numbers."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import combine_rows
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def min_range(params: object, operands: Ranges) -> Interval:
    parts = operands["of"]
    return Interval(min(part.low for part in parts), min(part.high for part in parts))


def max_range(params: object, operands: Ranges) -> Interval:
    parts = operands["of"]
    return Interval(max(part.low for part in parts), max(part.high for part in parts))


MIN = RewardOp(
    name="min",
    summary="The smallest of several numbers. Abstains if one of them does.",
    operands={"of": Operand(type="number", many=True, description="The numbers to compare.")},
    yields="number",
    range=min_range,
)
MAX = RewardOp(
    name="max",
    summary="The largest of several numbers. Abstains if one of them does.",
    operands={"of": Operand(type="number", many=True, description="The numbers to compare.")},
    yields="number",
    range=max_range,
)


def run_min(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return combine_rows(lambda row: float(min(row)), operands["of"])


def run_max(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return combine_rows(lambda row: float(max(row)), operands["of"])

"""The mean of numbers."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import sequential_sum
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Mean(Params):
    missing: Literal["abstain", "skip"] = Field(
        default="abstain",
        description="If a number abstains: `abstain` too, or `skip` it and use the others.",
    )


def bounded_mean(parts: Sequence[float]) -> float:
    # Rounding may put the quotient slightly outside the range of the values.
    return min(max(sequential_sum(parts) / len(parts), min(parts)), max(parts))


def value_range(params: Mean, operands: Ranges) -> Interval:
    parts = operands["of"]
    if params.missing == "skip":  # any of the parts may be the only one present
        return Interval(min(part.low for part in parts), max(part.high for part in parts))
    return Interval(bounded_mean([part.low for part in parts]), bounded_mean([part.high for part in parts]))


EXTENSION = RewardOp(
    name="mean",
    summary="The arithmetic mean of several numbers.",
    params=Mean,
    operands={"of": Operand(type="number", many=True, description="The numbers to average.")},
    yields="number",
    range=value_range,
)


def run(params: Mean, operands: Operands, batch: Batch) -> list[float | None]:
    return [_row_mean(row, params) for row in zip(*operands["of"], strict=True)]


def _row_mean(row: Sequence[float | None], params: Mean) -> float | None:
    present = [float(value) for value in row if value is not None]
    complete = len(present) == len(row) or params.missing == "skip"
    return bounded_mean(present) if present and complete else None

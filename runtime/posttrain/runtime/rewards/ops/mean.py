"""The mean of numbers."""

from collections.abc import Sequence
from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import sequential_sum
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Mean(Params):
    missing: Literal["abstain", "skip"] = field(
        default="abstain",
        description="When a part abstains: abstain too, or take the mean of the others.",
    )


def bounded_mean(parts: Sequence[float]) -> float:
    # The quotient may round to just outside of what it is the mean of.
    return min(max(sequential_sum(parts) / len(parts), min(parts)), max(parts))


def value_range(params: Mean, operands: Ranges) -> Interval:
    parts = operands["of"]
    if params.missing == "skip":  # any of the parts may be the only one
        return Interval(min(part.low for part in parts), max(part.high for part in parts))
    return Interval(bounded_mean([part.low for part in parts]), bounded_mean([part.high for part in parts]))


EXTENSION = RewardOp(
    name="mean",
    summary="The mean of its parts.",
    params=Mean,
    operands={"of": Operand(type="number", many=True, description="The numbers that the mean is of.")},
    yields="number",
    range=value_range,
)


def run(params: Mean, operands: Operands, batch: Batch) -> list[float | None]:
    return [_row_mean(row, params) for row in zip(*operands["of"], strict=True)]


def _row_mean(row: Sequence[float | None], params: Mean) -> float | None:
    kept = [float(value) for value in row if value is not None]
    whole = len(kept) == len(row) or params.missing == "skip"
    return bounded_mean(kept) if kept and whole else None

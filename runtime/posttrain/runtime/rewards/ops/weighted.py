"""The weighted sum of numbers."""

from collections.abc import Sequence

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import (
    check_dominant_term,
    combine_rows,
    scale_interval,
    sequential_sum,
)
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp
from posttrain.spec.field_types import Items


class Weighted(Params):
    weights: Items[float] = Field(min_length=1, description="One weight for each number, in order.")


def _terms(params: Weighted, operands: Ranges) -> list[Interval]:
    return [scale_interval(part, weight) for part, weight in zip(operands["of"], params.weights, strict=True)]


def value_range(params: Weighted, operands: Ranges) -> Interval:
    terms = _terms(params, operands)
    return Interval(
        sequential_sum([term.low for term in terms]), sequential_sum([term.high for term in terms])
    )


def remarks(params: Weighted, operands: Ranges) -> Sequence[Remark]:
    parts, weights = len(operands["of"]), len(params.weights)
    if parts != weights:
        message = f"{weights} weights for {parts} numbers"
        return (Remark(kind="refused", message=message, at=("weights",)),)
    return check_dominant_term(_terms(params, operands))


EXTENSION = RewardOp(
    name="weighted",
    summary="The weighted sum of several numbers. Abstains if one of them does.",
    params=Weighted,
    operands={
        "of": Operand(
            type="number", many=True, description="The numbers to add, in the order of the weights."
        )
    },
    yields="number",
    range=value_range,
    remarks=remarks,
)


def run(params: Weighted, operands: Operands, batch: Batch) -> list[float | None]:
    def weighted_sum(row: Sequence[float]) -> float:
        return sequential_sum([part * weight for part, weight in zip(row, params.weights, strict=True)])

    return combine_rows(weighted_sum, operands["of"])

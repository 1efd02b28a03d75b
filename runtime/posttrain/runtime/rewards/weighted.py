"""The sum of numbers, each times its weight."""

from collections.abc import Sequence

from posttrain.runtime.rewards.arithmetic import added, drowned, rowwise, times
from posttrain.runtime.rewards.batch import Batch, Operands
from posttrain.spec.declared import field
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp
from posttrain.spec.types import Interval


class Weighted(Params):
    weights: list[float] = field(min_length=1, description="A weight for each part, in their order.")


def _terms(params: Weighted, operands: Ranges) -> list[Interval]:
    return [times(part, weight) for part, weight in zip(operands["of"], params.weights, strict=True)]


def reach(params: Weighted, operands: Ranges) -> Interval:
    terms = _terms(params, operands)
    return Interval(added([term.low for term in terms]), added([term.high for term in terms]))


def remarks(params: Weighted, operands: Ranges) -> Sequence[Remark]:
    parts, weights = len(operands["of"]), len(params.weights)
    if parts != weights:
        message = f"there are {parts} parts and {weights} weights"
        return (Remark(kind="refused", message=message, at=("weights",)),)
    return drowned(_terms(params, operands))


EXTENSION = RewardOp(
    name="weighted",
    summary="The sum of its parts, each times its weight; it abstains when one of them does.",
    params=Weighted,
    operands={
        "of": Operand(type="number", many=True, description="The numbers, in the order of their weights.")
    },
    yields="number",
    range=reach,
    remarks=remarks,
)


def run(params: Weighted, operands: Operands, batch: Batch) -> list[float | None]:
    def combined(row: Sequence[float]) -> float:
        return added([part * weight for part, weight in zip(row, params.weights, strict=True)])

    return rowwise(combined, operands["of"])

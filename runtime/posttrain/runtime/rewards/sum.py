"""The sum of numbers; a sum with a missing part is missing."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.types import Interval


def reach(params: Params, operands: Mapping[str, Sequence[Interval]]) -> Interval:
    total = Interval(0.0, 0.0)
    for part in operands["of"]:
        total = total.plus(part)
    return total


EXTENSION = RewardOp(
    name="sum",
    summary="The sum of its parts.",
    operands={"of": Operand(type="number", many=True)},
    yields="number",
    range=reach,
)


def run(params: Params, operands: dict[str, list[Any]], count: int) -> list[float | None]:
    parts = list(zip(*operands["of"], strict=True))
    return [None if None in row else float(sum(row)) for row in parts]

"""One number when a condition holds, another when it does not."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.types import Interval


def reach(params: Params, operands: Mapping[str, Sequence[Interval]]) -> Interval:
    return operands["then"][0].join(operands["else"][0])


EXTENSION = RewardOp(
    name="score",
    summary="`then` when the condition holds, `else` when it does not, nothing when that is open.",
    operands={
        "when": Operand(type="boolean"),
        "then": Operand(type="number", required=False, default=1.0),
        "else": Operand(type="number", required=False, default=0.0),
    },
    yields="number",
    shorthand="when",
    range=reach,
)


def run(params: Params, operands: dict[str, list[Any]], count: int) -> list[float | None]:
    rows = zip(operands["when"], operands["then"], operands["else"], strict=True)
    return [None if when is None else then if when else other for when, then, other in rows]

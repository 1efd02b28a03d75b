"""Converts a condition to a number."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import branch_range
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    return branch_range(operands["when"][0], operands["then"][0], operands["else"][0])


EXTENSION = RewardOp(
    name="score",
    summary="The number `then` (1 by default) if the condition holds, else the number `else` (0 by default)."
    " Abstains if the condition abstains.",
    operands={
        "when": Operand(type="boolean", description="The condition."),
        "then": Operand(type="number", required=False, default=1.0, description="The number if it holds."),
        "else": Operand(
            type="number", required=False, default=0.0, description="The number if it does not hold."
        ),
    },
    yields="number",
    shorthand="when",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    rows = zip(operands["when"], operands["then"], operands["else"], strict=True)
    return [None if when is None else then if when else other for when, then, other in rows]

"""Logical NOT of a condition."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    (of,) = operands["of"]
    return Interval(1 - of.high, 1 - of.low)


EXTENSION = RewardOp(
    name="not",
    summary="True if the condition is false. Abstains if the condition abstains.",
    operands={"of": Operand(type="boolean", description="The condition to negate.")},
    yields="boolean",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [None if value is None else not value for value in operands["of"]]

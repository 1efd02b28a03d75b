"""Whether all conditions hold."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth, kleene_all
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    parts = operands["of"]
    return Interval(min(part.low for part in parts), min(part.high for part in parts))


EXTENSION = RewardOp(
    name="all",
    summary="True when all of its conditions hold; open when that hangs on an open one.",
    operands={"of": Operand(type="boolean", many=True, description="The conditions that must all hold.")},
    yields="boolean",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [kleene_all(row) for row in zip(*operands["of"], strict=True)]

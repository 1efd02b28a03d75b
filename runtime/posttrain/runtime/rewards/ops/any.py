"""Whether one of several conditions holds."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth, kleene_any
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    parts = operands["of"]
    return Interval(max(part.low for part in parts), max(part.high for part in parts))


EXTENSION = RewardOp(
    name="any",
    summary="True when one of its conditions holds; open when that hangs on an open one.",
    operands={"of": Operand(type="boolean", many=True, description="The conditions of which one must hold.")},
    yields="boolean",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [kleene_any(row) for row in zip(*operands["of"], strict=True)]

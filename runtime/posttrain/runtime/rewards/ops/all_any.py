"""Whether all of several conditions hold, and whether any of them does."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth, kleene_all, kleene_any
from posttrain.runtime.rewards.ops.min_max import max_range, min_range
from posttrain.spec.extension import Operand, RewardOp

ALL = RewardOp(
    name="all",
    summary="True when all of its conditions hold; open when that hangs on an open one.",
    operands={"of": Operand(type="boolean", many=True, description="The conditions that must all hold.")},
    yields="boolean",
    range=min_range,
)
ANY = RewardOp(
    name="any",
    summary="True when one of its conditions holds; open when that hangs on an open one.",
    operands={"of": Operand(type="boolean", many=True, description="The conditions of which one must hold.")},
    yields="boolean",
    range=max_range,
)


def run_all(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [kleene_all(row) for row in zip(*operands["of"], strict=True)]


def run_any(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [kleene_any(row) for row in zip(*operands["of"], strict=True)]

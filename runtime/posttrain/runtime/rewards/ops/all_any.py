"""Logical AND and OR over several conditions."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth, kleene_all, kleene_any
from posttrain.runtime.rewards.ops.min_max import max_range, min_range
from posttrain.spec.extension import Operand, RewardOp

ALL = RewardOp(
    name="all",
    summary="True if all conditions hold, false if at least one does not. Abstains if the result depends on a"
    " condition that abstains.",
    operands={"of": Operand(type="boolean", many=True, description="The conditions to combine.")},
    yields="boolean",
    range=min_range,
)
ANY = RewardOp(
    name="any",
    summary="True if at least one condition holds, false if none does. Abstains if the result depends on a"
    " condition that abstains.",
    operands={"of": Operand(type="boolean", many=True, description="The conditions to combine.")},
    yields="boolean",
    range=max_range,
)


def run_all(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [kleene_all(row) for row in zip(*operands["of"], strict=True)]


def run_any(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    return [kleene_any(row) for row in zip(*operands["of"], strict=True)]

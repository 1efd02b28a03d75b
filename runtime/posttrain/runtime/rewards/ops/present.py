"""Whether a text is present and not empty."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="present",
    summary="True if a text is present and not empty.",
    operands={"of": Operand(type="text", description="The text to check.")},
    yields="boolean",
)


def run(params: object, operands: Operands, batch: Batch) -> list[bool]:
    return [bool(text) for text in operands["of"]]

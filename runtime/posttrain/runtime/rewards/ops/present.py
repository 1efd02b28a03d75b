"""Whether a text was found and is not empty."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="present",
    summary="True when the text is there and not empty.",
    operands={"of": Operand(type="text", description="The text that must be there.")},
    yields="boolean",
)


def run(params: object, operands: Operands, batch: Batch) -> list[bool]:
    return [bool(text) for text in operands["of"]]

"""Whether a text was found and is not empty."""

from typing import Any

from posttrain.spec.extension import Operand, Params, RewardOp

EXTENSION = RewardOp(
    name="present",
    summary="True when the text is there and not empty.",
    operands={"of": Operand(type="text")},
    yields="boolean",
)


def run(params: Params, operands: dict[str, list[Any]], count: int) -> list[bool]:
    return [bool(text) for text in operands["of"]]

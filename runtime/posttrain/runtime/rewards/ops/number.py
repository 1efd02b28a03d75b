"""Converts a text to a number."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import read_number
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="number",
    summary="A text converted to a number. Abstains if the text is not a number.",
    operands={"of": Operand(type="text", description="The text to convert.")},
    yields="number",
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return [None if text is None else _to_float(text) for text in operands["of"]]


def _to_float(text: str) -> float | None:
    value = read_number(text)
    try:
        return None if value is None else float(value)
    except OverflowError:
        return None

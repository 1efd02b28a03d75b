"""The number that a text is."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import read_number
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="number",
    summary="The number that a text is, to compute with; it abstains when the text is none.",
    operands={"of": Operand(type="text", description="The text that is read as a number.")},
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

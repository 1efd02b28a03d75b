"""The first number that stands in a text."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import find_numbers, normalize_number
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="first_number",
    summary="The first number in a text, written without commas; absent when there is none.",
    operands={"of": Operand(type="text", description="The text in which a number is looked for.")},
    yields="text",
)


def run(params: object, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else first_number(text) for text in operands["of"]]


def first_number(text: str) -> str | None:
    return next((normalize_number(number) for number in find_numbers(text)), None)

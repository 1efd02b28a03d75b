"""The last number that stands in a text."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import find_numbers, normalize_number
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="last_number",
    summary="The last number in a text, written without commas; absent when there is none.",
    operands={"of": Operand(type="text", description="The text in which a number is looked for.")},
    yields="text",
)


def run(params: object, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else last_number(text) for text in operands["of"]]


def last_number(text: str) -> str | None:
    found = list(find_numbers(text))
    return normalize_number(found[-1]) if found else None

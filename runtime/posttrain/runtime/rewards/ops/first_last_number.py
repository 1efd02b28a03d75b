"""The first and the last number in a text."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.number_parsing import find_numbers, normalize_number
from posttrain.spec.extension import Operand, RewardOp

FIRST_NUMBER = RewardOp(
    name="first_number",
    summary="The first number in a text, without thousands separators. Absent if the text has no number.",
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)
LAST_NUMBER = RewardOp(
    name="last_number",
    summary="The last number in a text, without thousands separators. Absent if the text has no number.",
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)


def run_first_number(params: object, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else _first_number(text) for text in operands["of"]]


def run_last_number(params: object, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else _last_number(text) for text in operands["of"]]


def _first_number(text: str) -> str | None:
    return next((normalize_number(number) for number in find_numbers(text)), None)


def _last_number(text: str) -> str | None:
    numbers = list(find_numbers(text))
    return normalize_number(numbers[-1]) if numbers else None

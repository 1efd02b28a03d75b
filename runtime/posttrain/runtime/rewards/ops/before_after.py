"""The text before a separator, and the text after it."""

from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, Params, RewardOp


class Before(Params):
    separator: str = Field(min_length=1, description="The separator, matched literally.")
    pick: Literal["first", "last"] = Field(
        default="first", description="The occurrence of the separator to use if there are several."
    )


class After(Params):
    separator: str = Field(min_length=1, description="The separator, matched literally.")
    pick: Literal["first", "last"] = Field(
        default="last", description="The occurrence of the separator to use if there are several."
    )


BEFORE = RewardOp(
    name="before",
    summary="The text before a separator. Absent if the separator does not occur.",
    params=Before,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)
AFTER = RewardOp(
    name="after",
    summary="The text after a separator. Absent if the separator does not occur.",
    params=After,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)


def run_before(params: Before, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else _text_before(text, params) for text in operands["of"]]


def run_after(params: After, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else _text_after(text, params) for text in operands["of"]]


def _text_before(text: str, params: Before) -> str | None:
    index = _find_separator(text, params)
    return None if index < 0 else text[:index]


def _text_after(text: str, params: After) -> str | None:
    index = _find_separator(text, params)
    return None if index < 0 else text[index + len(params.separator) :]


def _find_separator(text: str, params: Before | After) -> int:
    return text.rfind(params.separator) if params.pick == "last" else text.find(params.separator)

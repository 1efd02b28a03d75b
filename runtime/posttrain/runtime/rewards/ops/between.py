"""The text between two tags."""

from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, Params, RewardOp


class Between(Params):
    open: str = Field(min_length=1, description="The opening tag.")
    close: str = Field(min_length=1, description="The closing tag.")
    pick: Literal["first", "last", "only"] = Field(
        default="first",
        description="The pair of tags to use if there are several. `only` requires that each tag occurs"
        " exactly once.",
    )
    strip: bool = Field(default=True, description="Strip white space at both ends of the result.")


EXTENSION = RewardOp(
    name="between",
    summary="The text between an opening and a closing tag. Absent if there is no such pair.",
    params=Between,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)


def run(params: Between, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else extract_between(text, params) for text in operands["of"]]


def extract_between(text: str, params: Between) -> str | None:
    """The text between the selected pair of tags, or None if there is no such pair."""
    if params.pick == "only" and (text.count(params.open) != 1 or text.count(params.close) != 1):
        return None
    start = _content_start(text, params)
    end = text.find(params.close, start) if start >= 0 else -1
    if end < 0:
        return None
    return text[start:end].strip() if params.strip else text[start:end]


def _content_start(text: str, params: Between) -> int:
    """The index after the opening tag; for `last`, the opening tag of the last complete pair."""
    if params.pick == "last":
        closing = text.rfind(params.close)
        opening = text.rfind(params.open, 0, closing) if closing >= 0 else -1
    else:
        opening = text.find(params.open)
    return opening + len(params.open) if opening >= 0 else -1

"""The text between two tags."""

from typing import Any

from pydantic import Field

from posttrain.spec.extension import Operand, Params, RewardOp


class Between(Params):
    open: str = Field(min_length=1, description="The opening tag.")
    close: str = Field(min_length=1, description="The closing tag.")
    pick: str = Field(
        default="first", pattern="^(first|last|only)$", description="Which pair counts, if there are several."
    )
    strip: bool = Field(default=True, description="Drop white space around the text.")


EXTENSION = RewardOp(
    name="between",
    summary="The text between an opening and a closing tag; absent when they are not there in order.",
    params=Between,
    operands={"of": Operand(type="text")},
    yields="text",
)


def run(params: Between, operands: dict[str, list[Any]], count: int) -> list[str | None]:
    return [None if text is None else between(text, params) for text in operands["of"]]


def between(text: str, params: Between) -> str | None:
    """The text of the pair that counts; None when there is no such pair."""
    if params.pick == "only" and (text.count(params.open) != 1 or text.count(params.close) != 1):
        return None
    start = text.rfind(params.open) if params.pick == "last" else text.find(params.open)
    if start < 0:
        return None
    start += len(params.open)
    end = text.find(params.close, start)
    if end < 0:
        return None
    return text[start:end].strip() if params.strip else text[start:end]

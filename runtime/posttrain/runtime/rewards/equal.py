"""Whether two texts are the same, to the letter or but for white space and case."""

from typing import Any

from pydantic import Field

from posttrain.spec.extension import Operand, Params, RewardOp


class Equal(Params):
    ignore_space: bool = Field(
        default=True, description="Take runs of white space as one, and none at the ends."
    )
    ignore_case: bool = Field(default=False, description="Take capitals for small letters.")


EXTENSION = RewardOp(
    name="equal",
    summary="True when two texts are the same.",
    params=Equal,
    operands={"of": Operand(type="text"), "to": Operand(type="text")},
    yields="boolean",
)


def run(params: Equal, operands: dict[str, list[Any]], count: int) -> list[bool]:
    pairs = zip(operands["of"], operands["to"], strict=True)
    return [a is not None and b is not None and _folded(a, params) == _folded(b, params) for a, b in pairs]


def _folded(text: str, params: Equal) -> str:
    if params.ignore_space:
        text = " ".join(text.split())
    return text.casefold() if params.ignore_case else text

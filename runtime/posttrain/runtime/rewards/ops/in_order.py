"""Whether tags occur in a text in a given order."""

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.field_types import Items


class InOrder(Params):
    tags: Items[str] = Field(min_length=1, description="The tags, in the expected order.")
    once: bool = Field(default=True, description="Require that each tag occurs exactly once.")
    at_start: bool = Field(default=False, description="Allow only white space before the first tag.")
    at_end: bool = Field(default=False, description="Allow only white space after the last tag.")


EXTENSION = RewardOp(
    name="in_order",
    summary="True if the text contains all tags in the given order, each exactly once unless `once: false`.",
    params=InOrder,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="boolean",
)


def run(params: InOrder, operands: Operands, batch: Batch) -> list[bool]:
    return [text is not None and in_order(text, params) for text in operands["of"]]


def in_order(text: str, params: InOrder) -> bool:
    if params.once and any(text.count(tag) != 1 for tag in params.tags):
        return False
    starts: list[int] = []
    at = 0
    for tag in params.tags:
        start = text.find(tag, at)
        if start < 0:
            return False
        starts.append(start)
        at = start + len(tag)
    if params.at_start and text[: starts[0]].strip():
        return False
    return not (params.at_end and text[at:].strip())

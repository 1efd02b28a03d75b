"""The text after a mark."""

from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp


class After(Params):
    mark: str = field(min_length=1, description="The mark.")
    pick: Literal["first", "last"] = field(default="last", description="Which mark, if there are several.")


EXTENSION = RewardOp(
    name="after",
    summary="The text after a mark; absent when the mark is not there.",
    params=After,
    operands={"of": Operand(type="text", description="The text in which the mark is looked for.")},
    yields="text",
)


def run(params: After, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else _text_after(text, params) for text in operands["of"]]


def _text_after(text: str, params: After) -> str | None:
    place = text.rfind(params.mark) if params.pick == "last" else text.find(params.mark)
    return None if place < 0 else text[place + len(params.mark) :]

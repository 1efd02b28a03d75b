"""Whether a text holds another."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.text_folding import Folding, fold_text
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="contains",
    summary="True when a text holds another; it abstains when there is no other.",
    params=Folding,
    operands={
        "of": Operand(type="text", description="The text that is searched."),
        "part": Operand(type="text", description="The text that must occur in it."),
    },
    yields="boolean",
)


def run(params: Folding, operands: Operands, batch: Batch) -> list[bool | None]:
    pairs = zip(operands["of"], operands["part"], strict=True)
    return [
        None if part is None else of is not None and fold_text(part, params) in fold_text(of, params)
        for of, part in pairs
    ]

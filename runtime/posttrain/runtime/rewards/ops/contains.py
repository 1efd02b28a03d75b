"""Whether a text contains another text."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.text_folding import Folding, fold_text
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="contains",
    summary="True if a text contains another text. Abstains if `part` is absent.",
    params=Folding,
    operands={
        "of": Operand(type="text", description="The text to search."),
        "part": Operand(type="text", description="The text to find."),
    },
    yields="boolean",
)


def run(params: Folding, operands: Operands, batch: Batch) -> list[bool | None]:
    pairs = zip(operands["of"], operands["part"], strict=True)
    return [
        None if part is None else of is not None and fold_text(part, params) in fold_text(of, params)
        for of, part in pairs
    ]

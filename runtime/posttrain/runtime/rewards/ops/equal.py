"""Whether two texts are equal, optionally ignoring white space and case."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.text_folding import Folding, fold_text
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="equal",
    summary="True if two texts are equal. Abstains if `to` is absent.",
    params=Folding,
    operands={
        "of": Operand(type="text", description="The text to compare, such as an answer."),
        "to": Operand(type="text", description="The expected text."),
    },
    yields="boolean",
)


def run(params: Folding, operands: Operands, batch: Batch) -> list[bool | None]:
    pairs = zip(operands["of"], operands["to"], strict=True)
    return [
        None if to is None else of is not None and fold_text(of, params) == fold_text(to, params)
        for of, to in pairs
    ]

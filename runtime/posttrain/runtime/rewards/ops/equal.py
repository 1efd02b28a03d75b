"""Whether two texts are the same, to the letter or but for white space and case."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.text_folding import Folding, fold_text
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="equal",
    summary="True when two texts are the same; it abstains when there is nothing to compare with.",
    params=Folding,
    operands={
        "of": Operand(type="text", description="The text that is compared, such as an answer."),
        "to": Operand(type="text", description="The text that it must be."),
    },
    yields="boolean",
)


def run(params: Folding, operands: Operands, batch: Batch) -> list[bool | None]:
    pairs = zip(operands["of"], operands["to"], strict=True)
    return [
        None if to is None else of is not None and fold_text(of, params) == fold_text(to, params)
        for of, to in pairs
    ]

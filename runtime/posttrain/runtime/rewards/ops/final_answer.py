"""The final answer of a completion, wherever its writer put it."""

from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp

Way = Literal["boxed", "tags", "hashes", "phrase", "last_math", "last_line", "last_number", "whole"]


class FinalAnswer(Params):
    strategies: list[Way] = field(
        default=["boxed", "tags", "hashes", "phrase"],
        min_length=1,
        description="Where to look, in order: the last \\boxed{}, between the tags, after ####, after"
        " `the answer is`, the last formula, line or number, or all of it.",
    )
    tags: list[str] = field(
        default=["<answer>", "</answer>"],
        min_length=2,
        max_length=2,
        description="The tags around an answer, for `tags`.",
    )
    after: str | None = field(
        default=None, description="Look only after the last of this mark, if it is there."
    )
    required: bool = field(default=False, description="Whether that mark must be there.")
    once: bool = field(default=False, description="Whether a box or a pair of tags must be there just once.")


EXTENSION = RewardOp(
    name="final_answer",
    summary="The answer that a completion ends on, by the first way of looking that finds one.",
    params=FinalAnswer,
    operands={
        "of": Operand(type="text", description="The completion, or the part of it that ends on the answer.")
    },
    yields="text",
)


def run(params: FinalAnswer, operands: Operands, batch: Batch) -> list[str | None]:
    from posttrain.grading.extraction import ExtractionRules, extract

    rules = ExtractionRules(
        methods=tuple(params.strategies),
        tags=(params.tags[0], params.tags[1]),
        after_marker=params.after,
        require_marker=params.required,
        require_single=params.once,
    )
    return [None if text is None else extract(text, rules) for text in operands["of"]]

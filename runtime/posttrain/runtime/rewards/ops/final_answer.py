"""The final answer of a completion, found by several extraction strategies."""

from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.field_types import Items, Pair

Way = Literal["boxed", "tags", "hashes", "phrase", "last_math", "last_line", "last_number", "whole"]


class FinalAnswer(Params):
    strategies: Items[Way] = Field(
        default=("boxed", "tags", "hashes", "phrase"),
        min_length=1,
        description="The extraction strategies, tried in order. `boxed`: the last \\boxed{}. `tags`: between"
        " the tags. `hashes`: after ####. `phrase`: after `the answer is`. `last_math`, `last_line`,"
        " `last_number`: the last formula, line or number. `whole`: the whole text.",
    )
    tags: Pair[str] = Field(
        default=("<answer>", "</answer>"),
        description="The opening and the closing tag of the strategy `tags`.",
    )
    after: str | None = Field(
        default=None,
        description="Search only the text after the last occurrence of this marker, such as `</think>`.",
    )
    required: bool = Field(default=False, description="Find no answer if the marker `after` does not occur.")
    once: bool = Field(default=False, description="Require exactly one box, or exactly one pair of tags.")


EXTENSION = RewardOp(
    name="final_answer",
    summary="The final answer of a completion, from the first strategy that finds one. Absent if none does.",
    params=FinalAnswer,
    operands={"of": Operand(type="text", description="The text to search, usually the completion.")},
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

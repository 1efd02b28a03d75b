"""Whether a regular expression matches a text."""

from typing import Any

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, BooleanFallback, fallback_value
from posttrain.runtime.rewards.text_parsing.bounded_regex import TIMEOUT_REASON, RegexParams, search_texts
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, RewardOp


class Matches(RegexParams):
    whole: bool = field(default=False, description="Whether it must match all of the text.")
    on_timeout: BooleanFallback = field(
        default="abstain", description=f"For a row out of time: {FALLBACK_DESCRIPTION}"
    )


EXTENSION = RewardOp(
    name="matches",
    summary="True when a regular expression matches somewhere in the text.",
    params=Matches,
    operands={"of": Operand(type="text", description="The text that is searched.")},
    yields="boolean",
    stack=("regex",),
)


def run(params: Matches, operands: Operands, batch: Batch) -> OpResult:
    def search(pattern: Any, text: str, seconds: float) -> bool:
        tried = pattern.fullmatch if params.whole else pattern.search
        return tried(text, timeout=seconds, concurrent=True) is not None

    found, late = search_texts(params, operands["of"], search)
    values = [
        fallback_value(params.on_timeout, TIMEOUT_REASON) if row in late else bool(hit)
        for row, hit in enumerate(found)
    ]
    reasons = [TIMEOUT_REASON if row in late else None for row in range(batch.count)] if late else []
    return OpResult(values=values, reasons=reasons)

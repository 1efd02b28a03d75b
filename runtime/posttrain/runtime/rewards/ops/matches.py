"""Whether a regular expression matches a text."""

from typing import Any

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, BooleanFallback, fallback_value
from posttrain.runtime.rewards.text_parsing.bounded_regex import TIMEOUT_REASON, RegexParams, search_texts
from posttrain.spec.extension import Operand, RewardOp


class Matches(RegexParams):
    whole: bool = Field(default=False, description="Require that the pattern matches the whole text.")
    on_timeout: BooleanFallback = Field(
        default="abstain", description=f"For a search that exceeds `timeout_seconds`: {FALLBACK_DESCRIPTION}"
    )


EXTENSION = RewardOp(
    name="matches",
    summary="True if a regular expression matches anywhere in a text, or the whole text with `whole: true`.",
    params=Matches,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="boolean",
    stack=("regex",),
)


def run(params: Matches, operands: Operands, batch: Batch) -> OpResult:
    def search(pattern: Any, text: str, seconds: float) -> bool:
        method = pattern.fullmatch if params.whole else pattern.search
        return method(text, timeout=seconds, concurrent=True) is not None

    hits, timed_out = search_texts(params, operands["of"], search)
    values = [
        fallback_value(params.on_timeout, TIMEOUT_REASON) if row in timed_out else bool(hit)
        for row, hit in enumerate(hits)
    ]
    reasons = (
        [TIMEOUT_REASON if row in timed_out else None for row in range(batch.count)] if timed_out else []
    )
    return OpResult(values=values, reasons=reasons)

"""Whether a regular expression matches a text."""

from typing import Any

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, BooleanFallback, fallback_value
from posttrain.runtime.rewards.text_parsing.bounded_regex import (
    TIMEOUT_REASON,
    RegexParams,
    search_texts,
)
from posttrain.spec.extension import Operand, RewardOp


class Matches(RegexParams):
    whole: bool = Field(default=False, description="Require that the pattern matches the whole text.")
    on_timeout: BooleanFallback = Field(
        default=False, description=f"For a search that exceeds `max_cpu_seconds`: {FALLBACK_DESCRIPTION}"
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

    found = search_texts(params, operands["of"], search)
    values: list[bool | float | None] = [
        fallback_value(params.on_timeout, TIMEOUT_REASON) if row in found.beyond_limit else bool(hit)
        for row, hit in enumerate(found.values)
    ]
    for row in found.lost:
        values[row] = None
    return OpResult(values=values, reasons=found.reasons())

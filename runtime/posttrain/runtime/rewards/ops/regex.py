"""The text that a regular expression matches."""

from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import TextFallback, fallback_value
from posttrain.runtime.rewards.text_parsing.bounded_regex import (
    TIMEOUT_REASON,
    RegexParams,
    compile_pattern,
    search_texts,
)
from posttrain.spec.extension import Operand, RewardOp


class Regex(RegexParams):
    group: int | str = Field(
        default=0, description="The group to return, by number or name. 0 is the whole match."
    )
    pick: Literal["first", "last"] = Field(
        default="first", description="The match to use if there are several."
    )
    on_timeout: TextFallback = Field(
        default="abstain",
        description="For a search that exceeds `timeout_seconds`: `abstain` leaves the row unscored, `fail`"
        " ends the step.",
    )

    def check(self) -> None:
        pattern = compile_pattern(self.pattern)
        known = (
            self.group in pattern.groupindex
            if isinstance(self.group, str)
            else 0 <= self.group <= pattern.groups
        )
        if not known:
            raise ValueError(f"the pattern has no group `{self.group}`")


EXTENSION = RewardOp(
    name="regex",
    summary="The match of a regular expression, or one of its groups. Absent if there is no match.",
    params=Regex,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
    stack=("regex",),
)


def run(params: Regex, operands: Operands, batch: Batch) -> OpResult:
    def search(pattern: Any, text: str, seconds: float) -> str | None:
        selected = None
        for match in pattern.finditer(text, timeout=seconds, concurrent=True):
            selected = match
            if params.pick == "first":
                break
        return selected[params.group] if selected else None

    values, timed_out = search_texts(params, operands["of"], search)
    for _ in timed_out:
        fallback_value(
            params.on_timeout, TIMEOUT_REASON, "simplify the pattern: nested repeats backtrack without end"
        )
    reasons = (
        [TIMEOUT_REASON if row in timed_out else None for row in range(batch.count)] if timed_out else []
    )
    return OpResult(values=values, reasons=reasons, unknown=timed_out)

"""The text that a regular expression matches."""

from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import fallback_value
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
    on_timeout: Literal["absent", "abstain", "fail"] = Field(
        default="absent",
        description="For a search that exceeds `max_cpu_seconds`: `absent` means no match, `abstain` leaves"
        " the row unscored, `fail` ends the step.",
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

    found = search_texts(params, operands["of"], search)
    if found.beyond_limit and params.on_timeout == "fail":
        fallback_value("fail", TIMEOUT_REASON, "simplify the pattern: nested repeats backtrack without end")
    unknown = found.lost if params.on_timeout == "absent" else found.lost | found.beyond_limit
    return OpResult(values=found.values, reasons=found.reasons(), unknown=unknown)

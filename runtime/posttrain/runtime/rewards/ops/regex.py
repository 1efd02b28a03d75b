"""The text that a regular expression matches."""

from typing import Any, Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import TextFallback, fallback_value
from posttrain.runtime.rewards.text_parsing.bounded_regex import (
    TIMEOUT_REASON,
    RegexParams,
    compile_pattern,
    search_texts,
)
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, RewardOp


class Regex(RegexParams):
    group: int | str = field(default=0, description="The group that is taken, by number or name; 0 is all.")
    pick: Literal["first", "last"] = field(
        default="first", description="Which match counts, if there are several."
    )
    on_timeout: TextFallback = field(
        default="abstain", description="What a row out of time does: it abstains, or it ends the step."
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
    summary="What a regular expression matches, or one of its groups; absent when there is no match.",
    params=Regex,
    operands={"of": Operand(type="text", description="The text that is searched.")},
    yields="text",
    stack=("regex",),
)


def run(params: Regex, operands: Operands, batch: Batch) -> OpResult:
    def search(pattern: Any, text: str, seconds: float) -> str | None:
        found = None
        for match in pattern.finditer(text, timeout=seconds, concurrent=True):
            found = match
            if params.pick == "first":
                break
        return found[params.group] if found else None

    found, late = search_texts(params, operands["of"], search)
    for _ in late:
        fallback_value(
            params.on_timeout, TIMEOUT_REASON, "simplify the pattern: nested repeats backtrack without end"
        )
    reasons = [TIMEOUT_REASON if row in late else None for row in range(batch.count)] if late else []
    return OpResult(values=found, reasons=reasons, unknown=late)

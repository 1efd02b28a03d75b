"""The text that a regular expression matches."""

from typing import Any, Literal

from posttrain.runtime.rewards.batch import Batch, Operands, Reasoned
from posttrain.runtime.rewards.otherwise import TextOtherwise, settled
from posttrain.runtime.rewards.patterns import LATE, Pattern, compiled, searched
from posttrain.spec.declared import field
from posttrain.spec.extension import Operand, RewardOp


class Regex(Pattern):
    group: int | str = field(default=0, description="The group that is taken, by number or name; 0 is all.")
    pick: Literal["first", "last"] = field(
        default="first", description="Which match counts, if there are several."
    )
    on_timeout: TextOtherwise = field(
        default="abstain", description="What a row out of time does: it abstains, or it ends the step."
    )

    def check(self) -> None:
        pattern = compiled(self.pattern)
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


def run(params: Regex, operands: Operands, batch: Batch) -> Reasoned:
    def search(pattern: Any, text: str, seconds: float) -> str | None:
        found = None
        for match in pattern.finditer(text, timeout=seconds, concurrent=True):
            found = match
            if params.pick == "first":
                break
        return found[params.group] if found else None

    found, late = searched(params, operands["of"], search)
    for _ in late:
        settled(params.on_timeout, LATE, "simplify the pattern: nested repeats backtrack without end")
    reasons = [LATE if row in late else None for row in range(batch.count)] if late else []
    return Reasoned(values=found, reasons=reasons, unknown=late)

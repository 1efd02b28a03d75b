"""Whether a regular expression matches a text."""

from typing import Any

from posttrain.runtime.rewards.batch import Batch, Operands, Reasoned
from posttrain.runtime.rewards.otherwise import EFFECT, TruthOtherwise, settled
from posttrain.runtime.rewards.patterns import LATE, Pattern, searched
from posttrain.spec.declared import field
from posttrain.spec.extension import Operand, RewardOp


class Matches(Pattern):
    whole: bool = field(default=False, description="Whether it must match all of the text.")
    on_timeout: TruthOtherwise = field(default="abstain", description=f"For a row out of time: {EFFECT}")


EXTENSION = RewardOp(
    name="matches",
    summary="True when a regular expression matches somewhere in the text.",
    params=Matches,
    operands={"of": Operand(type="text", description="The text that is searched.")},
    yields="boolean",
    stack=("regex",),
)


def run(params: Matches, operands: Operands, batch: Batch) -> Reasoned:
    def search(pattern: Any, text: str, seconds: float) -> bool:
        tried = pattern.fullmatch if params.whole else pattern.search
        return tried(text, timeout=seconds, concurrent=True) is not None

    found, late = searched(params, operands["of"], search)
    values = [settled(params.on_timeout, LATE) if row in late else bool(hit) for row, hit in enumerate(found)]
    reasons = [LATE if row in late else None for row in range(batch.count)] if late else []
    return Reasoned(values=values, reasons=reasons)

"""What a node gives when its work failed or took too long: a score, nothing, or the end of the step."""

from typing import Literal

from posttrain.runtime.faults import StepFault

# `abstain` leaves the row without a value, `fail` ends the step; a number or a truth is the value.
TextOtherwise = Literal["abstain", "fail"]
TruthOtherwise = Literal["abstain", "fail"] | bool
NumberOtherwise = Literal["abstain", "fail"] | float
AnyOtherwise = Literal["abstain", "fail"] | bool | float

EFFECT = "`abstain` leaves the row unscored, `fail` ends the step, a value stands in for the node's own."


def settled(otherwise: AnyOtherwise, reason: str, advice: str = "") -> bool | float | None:
    """The value to go on with."""
    if otherwise == "fail":
        raise StepFault(reason, advice or "mend the cause, or let the node abstain")
    return None if otherwise == "abstain" else otherwise

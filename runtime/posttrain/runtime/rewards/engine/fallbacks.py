"""What a node gives when its work failed or took too long: a score, nothing, or the end of the step."""

from typing import Literal

from posttrain.runtime.errors import StepError

# `abstain` leaves the row without a value, `fail` ends the step; a number or a truth is the value.
TextFallback = Literal["abstain", "fail"]
BooleanFallback = Literal["abstain", "fail"] | bool
NumberFallback = Literal["abstain", "fail"] | float
AnyFallback = Literal["abstain", "fail"] | bool | float

FALLBACK_DESCRIPTION = (
    "`abstain` leaves the row unscored, `fail` ends the step, a value stands in for the node's own."
)


def fallback_value(otherwise: AnyFallback, reason: str, advice: str = "") -> bool | float | None:
    """The value to go on with."""
    if otherwise == "fail":
        raise StepError(reason, advice or "mend the cause, or let the node abstain")
    return None if otherwise == "abstain" else otherwise

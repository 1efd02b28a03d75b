"""Fallbacks of a node whose computation fails or times out: a value, an abstention, or a failed step."""

from typing import Literal

from posttrain.runtime.errors import StepError

# `abstain` leaves the row without a value, `fail` ends the step, a number or a boolean is the value.
BooleanFallback = Literal["abstain", "fail"] | bool
NumberFallback = Literal["abstain", "fail"] | float
AnyFallback = Literal["abstain", "fail"] | bool | float

FALLBACK_DESCRIPTION = "`abstain` leaves the row unscored, `fail` ends the step, a value replaces the result."


def fallback_value(
    otherwise: AnyFallback, reason: str, advice: str = "", details: str = ""
) -> bool | float | None:
    """The value to use instead. Raises StepError for `fail`."""
    if otherwise == "fail":
        advice = advice or "fix the cause, or set the fallback to `abstain`"
        raise StepError(reason, advice, details=details)
    return None if otherwise == "abstain" else otherwise

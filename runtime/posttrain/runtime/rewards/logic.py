"""Conditions that may be open: true, false or None, as ops that combine them share.

Kleene's logic: what is open matters only where the rest does not decide.
"""

from collections.abc import Sequence

from posttrain.spec.types import Interval

Truth = bool | None


def every(parts: Sequence[Truth]) -> Truth:
    if False in parts:
        return False
    return None if None in parts else True


def some(parts: Sequence[Truth]) -> Truth:
    if True in parts:
        return True
    return None if None in parts else False


def never(condition: Interval) -> bool:
    return condition.high == 0


def always(condition: Interval) -> bool:
    return condition.low == 1


def chosen(condition: Interval, then: Interval, other: Interval) -> Interval:
    """What may come out where a condition chooses between two values."""
    if always(condition):
        return then
    return other if never(condition) else then.join(other)

"""Kleene's three-valued logic for conditions: true, false, or None for unknown.

An unknown operand makes the result unknown only if the other operands do not decide it.
"""

from collections.abc import Sequence

from posttrain.spec.column_types import Interval

Truth = bool | None


def kleene_all(parts: Sequence[Truth]) -> Truth:
    if False in parts:
        return False
    return None if None in parts else True


def kleene_any(parts: Sequence[Truth]) -> Truth:
    if True in parts:
        return True
    return None if None in parts else False


def is_never_true(condition: Interval) -> bool:
    return condition.high == 0


def is_always_true(condition: Interval) -> bool:
    return condition.low == 1


def branch_range(condition: Interval, then: Interval, other: Interval) -> Interval:
    """The range of a value that a condition selects from two."""
    if is_always_true(condition):
        return then
    return other if is_never_true(condition) else then.join(other)

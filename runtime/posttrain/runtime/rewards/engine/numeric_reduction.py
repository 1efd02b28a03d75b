"""Shared helpers of ops that combine numbers. Ranges are computed with the same floating-point operations as
values, in the same order, so that rounding cannot move a value out of its range."""

import math
from collections.abc import Callable, Sequence

from posttrain.runtime.rewards.engine.batch import Column
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Remark

_DOMINANT_SHARE = 0.95


def combine_rows(
    combine: Callable[[Sequence[float]], float], columns: Sequence[Column]
) -> list[float | None]:
    """Combine the values of each row. The result is None if one of them is None."""
    return [None if None in row else combine(row) for row in zip(*columns, strict=True)]


def sequential_sum(parts: Sequence[float]) -> float:
    # Not `sum`: since Python 3.12 it uses compensated summation.
    total = 0.0
    for part in parts:
        total += part
    return total


def scale_interval(interval: Interval, factor: float) -> Interval:
    return interval.times(Interval(factor, factor))


def check_dominant_term(terms: Sequence[Interval]) -> Sequence[Remark]:
    """A remark if one term has nearly the whole range of a sum although other terms vary too."""
    widths = [term.high - term.low for term in terms]
    total = sum(widths)
    if not math.isfinite(total) or sum(width > 0 for width in widths) < 2:
        return ()
    largest = max(widths)
    if largest <= _DOMINANT_SHARE * total:
        return ()
    index = widths.index(largest)
    message = f"this term dominates the sum: it varies by {largest:g}, all others by {total - largest:g}"
    return (Remark(kind="dominated", message=message, at=("of", index), help="scale it, or the others"),)

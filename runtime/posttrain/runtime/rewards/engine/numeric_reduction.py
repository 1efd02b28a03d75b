"""What ops that combine numbers share. Ranges are computed by the very steps that values are, in the
same order, so that rounding cannot carry a value out of its range."""

import math
from collections.abc import Callable, Sequence

from posttrain.runtime.rewards.engine.batch import Column
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Remark

_DOMINANT_SHARE = 0.95


def combine_rows(
    combine: Callable[[Sequence[float]], float], columns: Sequence[Column]
) -> list[float | None]:
    """Combine the values of each row; a row in which one is missing has none."""
    return [None if None in row else combine(row) for row in zip(*columns, strict=True)]


def sequential_sum(parts: Sequence[float]) -> float:
    # Not `sum`, which from Python 3.12 on rounds in another way.
    total = 0.0
    for part in parts:
        total += part
    return total


def scale_interval(reach: Interval, factor: float) -> Interval:
    return reach.times(Interval(factor, factor))


def check_dominant_term(terms: Sequence[Interval]) -> Sequence[Remark]:
    """A remark when one term has nearly all that a sum can vary by, beside others that vary too."""
    spans = [term.high - term.low for term in terms]
    whole = sum(spans)
    if not math.isfinite(whole) or sum(span > 0 for span in spans) < 2:
        return ()
    largest = max(spans)
    if largest <= _DOMINANT_SHARE * whole:
        return ()
    place = spans.index(largest)
    message = f"this term varies by {largest:g}, all the others together by {whole - largest:g}"
    return (Remark(kind="dominated", message=message, at=("of", place), help="scale it, or the others"),)

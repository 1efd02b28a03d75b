"""Tango's score for the difference of two rates over the same items, and the search for its bounds."""

import math
from collections.abc import Callable


def tango_score(better: int, worse: int, count: int, at: float) -> float:
    """How many standard errors the difference lies above one that is taken to be true."""
    linear = -better - worse + (2 * count - better + worse) * at
    constant = -worse * at * (1 - at)
    root = math.sqrt(max(0.0, linear * linear - 8 * count * constant))
    falls = (root - linear) / (4 * count)
    variance = count * (2 * falls + at * (1 - at))
    gap = better - worse - count * at
    if variance <= 1e-12:
        return 0.0 if abs(gap) < 1e-9 else math.copysign(math.inf, gap)
    return gap / math.sqrt(variance)


def find_root(score: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a falling function has this value."""
    for _ in range(60):
        middle = (low + high) / 2
        if score(middle) > wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2

"""Tango's score for the difference of two paired rates, and the root search for its interval."""

import math
from collections.abc import Callable


def tango_score(better: int, worse: int, count: int, at: float) -> float:
    """The distance of the observed difference from a hypothesized one, in standard errors."""
    linear = -better - worse + (2 * count - better + worse) * at
    constant = -worse * at * (1 - at)
    root = math.sqrt(max(0.0, linear * linear - 8 * count * constant))
    falls = (root - linear) / (4 * count)
    variance = count * (2 * falls + at * (1 - at))
    gap = better - worse - count * at
    if variance <= 1e-12:
        return 0.0 if abs(gap) < 1e-9 else math.copysign(math.inf, gap)
    return gap / math.sqrt(variance)


def find_root(score: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The argument at which a decreasing function has a value, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        if score(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2

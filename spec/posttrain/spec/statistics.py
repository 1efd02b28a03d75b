"""The arithmetic of evals and gates, used alike to plan them and to decide them."""

import math
from functools import cache

from posttrain.spec.types import Interval


@cache
def quantile(probability: float) -> float:
    """The standard normal quantile."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def wilson(successes: float, trials: float, confidence: float) -> Interval:
    """Wilson's interval for a proportion."""
    if trials <= 0:
        return Interval(0.0, 1.0)
    z = quantile(0.5 + confidence / 2)
    share = successes / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes <= 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if successes >= trials else min(1.0, (middle + spread) / scale)
    return Interval(low, high)


def trials_to_show(threshold: float, confidence: float) -> int:
    """The fewest trials of which all succeed whose Wilson bound lies above a threshold."""
    z = quantile(0.5 + confidence / 2)
    return math.floor(z * z * threshold / (1 - threshold)) + 1 if threshold < 1 else -1

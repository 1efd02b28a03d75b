"""Statistics of evals and gates: the compiler uses them to plan, the runtime to decide."""

import math
from functools import cache

from posttrain.spec.column_types import Interval

_POISSON_MAX_COUNT = 3


@cache
def normal_quantile(probability: float) -> float:
    """The standard normal quantile."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def normal_cdf(value: float) -> float:
    """The cumulative distribution function of the standard normal distribution."""
    return math.erfc(-value / math.sqrt(2)) / 2


def binomial_tail(successes: float, trials: float, share: float) -> float:
    """The probability of at least this many successes."""
    return 1.0 if successes <= 0 else _incomplete_beta(share, successes, trials - successes + 1)


def student_t_cdf(value: float, freedom: int) -> float:
    """The cumulative distribution function of Student's t distribution."""
    if math.isinf(value):
        return float(value > 0)
    tail = _incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


@cache
def student_t_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t for a probability of at least 0.5; infinite without degrees of freedom."""
    if freedom < 1:
        return math.inf
    low, high = 0.0, 1.0
    while student_t_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) / a * _beta_continued_fraction(x, a, b)


def _beta_continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's algorithm."""
    above = 1.0
    found = below = 1 / (1 - (a + b) * x / (a + 1))
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            below = 1 / (1 + term * below)
            above = 1 + term / above
            found *= below * above
        if abs(below * above - 1) < 1e-15:
            break
    return found


def wilson_interval(successes: float, trials: float, confidence: float) -> Interval:
    """Wilson's interval for a proportion.

    With at most three successes or failures, the bound on that side is the Poisson bound, because Wilson's
    interval has less than the nominal coverage there.
    """
    if trials <= 0:
        return Interval(0.0, 1.0)
    z = normal_quantile(0.5 + confidence / 2)
    share = successes / trials
    middle = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes <= 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if successes >= trials else min(1.0, (middle + spread) / scale)
    tail = (1 - confidence) / 2
    if 0 < successes <= _POISSON_MAX_COUNT:
        low = min(low, _poisson_lower_bound(successes, tail) / trials)
    if 0 < trials - successes <= _POISSON_MAX_COUNT:
        high = max(high, 1 - _poisson_lower_bound(trials - successes, tail) / trials)
    return Interval(low, high)


@cache
def _poisson_lower_bound(events: float, tail: float) -> float:
    """The Poisson mean at which at least this many events have probability `tail`."""
    low, high = 0.0, events
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _poisson_tail(events, middle) < tail else (low, middle)
    return (low + high) / 2


def _poisson_tail(events: float, expected: float) -> float:
    """The probability of at least this many events: the lower incomplete gamma function, for few events."""
    if expected <= 0:
        return 0.0
    term = math.exp(events * math.log(expected) - expected - math.lgamma(events + 1))
    total, n = 0.0, 1
    while term > 1e-17:
        total += term
        term *= expected / (events + n)
        n += 1
    return total

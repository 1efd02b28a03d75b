"""The arithmetic of evals and gates, used alike to plan them and to decide them."""

import math
from functools import cache

from posttrain.spec.column_types import Interval

# How often a gate should be able to tell what it is asked to tell.
POWER = 0.8
_POISSON_MAX_COUNT = 3


@cache
def normal_quantile(probability: float) -> float:
    """The standard normal quantile."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def normal_cdf(value: float) -> float:
    """How much of the standard normal distribution lies below."""
    return math.erfc(-value / math.sqrt(2)) / 2


def binomial_tail(successes: float, trials: float, share: float) -> float:
    """The chance of at least so many successes."""
    return 1.0 if successes <= 0 else _incomplete_beta(share, successes, trials - successes + 1)


def student_t_cdf(value: float, freedom: int) -> float:
    """How much of Student's distribution lies below."""
    if math.isinf(value):
        return float(value > 0)
    tail = _incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


@cache
def student_t_quantile(probability: float, freedom: int) -> float:
    """Student's quantile, for a probability of a half or more; without a limit for a single value."""
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
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) / a * _beta_continued_fraction(x, a, b)


def _beta_continued_fraction(x: float, a: float, b: float) -> float:
    """Lentz's way through the fraction, from the front."""
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

    Where no more than three succeeded, or failed, the bound on that side is Poisson's: Wilson's lies too
    close there, and would miss the truth more often than it says.
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
    """The expectation under which so many events, or more, come about with this chance."""
    low, high = 0.0, events
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _poisson_tail(events, middle) < tail else (low, middle)
    return (low + high) / 2


def _poisson_tail(events: float, expected: float) -> float:
    """The chance of so many events or more: the lower incomplete gamma function, for few events."""
    if expected <= 0:
        return 0.0
    term = math.exp(events * math.log(expected) - expected - math.lgamma(events + 1))
    total, n = 0.0, 1
    while term > 1e-17:
        total += term
        term *= expected / (events + n)
        n += 1
    return total


def min_trials_for_rate(threshold: float, confidence: float) -> int:
    """The fewest trials of which all succeed that show a rate above a threshold, by interval and by test."""
    if threshold >= 1:
        return -1
    z = normal_quantile(0.5 + confidence / 2)
    by_interval = math.floor(z * z * threshold / (1 - threshold)) + 1
    by_test = math.log((1 - confidence) / 2) / math.log(threshold) if threshold > 0 else 0
    return max(by_interval, math.ceil(by_test))


def min_pairs_for_gain(margin: float, confidence: float) -> int:
    """The fewest pairs of which all go up that show a gain above a margin."""
    if margin == 0:
        return math.ceil(math.log2(2 / (1 - confidence)))
    return min_trials_for_rate((1 + margin) / 2, confidence)


def sample_size_for_rate(threshold: float, effect: float, confidence: float) -> int:
    """The trials that tell a rate from a threshold, four times in five, when it is off by an effect."""
    truth = threshold + effect
    certain, seen = normal_quantile(0.5 + confidence / 2), normal_quantile(POWER)
    spread = certain * math.sqrt(threshold * (1 - threshold)) + seen * math.sqrt(truth * (1 - truth))
    return math.ceil((spread / effect) ** 2)


def sample_size_for_paired_gain(margin: float, effect: float, confidence: float, disagreement: float) -> int:
    """The pairs that tell a gain of `margin + effect` from the margin, four times in five.

    `disagreement` is the share of items on which the two differ: all that pairs have to go by.
    """
    truth = margin + effect
    certain, seen = normal_quantile(0.5 + confidence / 2), normal_quantile(POWER)
    changed = max(disagreement, abs(margin), abs(truth))
    spread = certain * math.sqrt(changed - margin**2) + seen * math.sqrt(changed - truth**2)
    return math.ceil((spread / effect) ** 2)

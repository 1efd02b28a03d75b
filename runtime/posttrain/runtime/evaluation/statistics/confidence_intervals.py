"""Confidence intervals and tests over items, for a rate, a mean, or the paired difference of two models.

An item is a data row with all its completions, because completions of one prompt are not independent.
`perf/interval_coverage.md` has the coverage of each interval, `perf/gate_levels.md` the errors of the tests.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from posttrain.spec.column_types import Interval
from posttrain.spec.eval_statistics import (
    binomial_tail,
    normal_cdf,
    normal_quantile,
    student_t_cdf,
    student_t_quantile,
    wilson_interval,
)
from posttrain.spec.paired_rates import paired_gain_interval, paired_p_value

_BOOTSTRAP_DRAWS = 999
# From this number of items on, Student's interval needs no correction.
_LARGE_SAMPLE = 1000
_DISPERSION_PRIOR = 5
_MIN_ODD_VALUES = 20


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate with its confidence interval. `p_above` and `p_below` are one-sided p-values: the null
    hypothesis is a threshold, the alternatives are a true value above or below it."""

    value: float
    low: float
    high: float
    p_above: float
    p_below: float
    method: str


def estimate_mean(
    values: Sequence[float],
    *,
    rate: bool,
    trials: int,
    threshold: float,
    confidence: float,
    seed: int,
    bounds: Interval | None = None,
) -> Estimate:
    """Estimate the mean of the items' values. `trials` is the number of completions; `bounds` is the range of
    an item's value, if known."""
    if are_binary(values, bounds):
        return _wilson_estimate(math.fsum(values), len(values), threshold, confidence)
    if rate:
        return _clustered_rate(values, trials, threshold, confidence)
    return _student_estimate(values, threshold, confidence, seed, bounds)


def estimate_difference(
    after: Sequence[float],
    before: Sequence[float],
    *,
    margin: float,
    confidence: float,
    seed: int,
    bounds: Interval | None = None,
) -> Estimate:
    """Estimate the mean of the paired differences. `bounds` is the range of an item's value."""
    if are_binary([*after, *before], bounds):
        better = sum(one > other for one, other in zip(after, before, strict=True))
        worse = sum(one < other for one, other in zip(after, before, strict=True))
        return _paired_rates(better, worse, len(after), margin, confidence)
    gains = [one - other for one, other in zip(after, before, strict=True)]
    wide = None if bounds is None else Interval(bounds.low - bounds.high, bounds.high - bounds.low)
    return _student_estimate(gains, margin, confidence, seed, wide, "paired t")


def are_binary(values: Sequence[float], bounds: Interval | None) -> bool:
    """Whether every item's value is 0 or 1, and its range allows no others beyond."""
    return set(values) <= {0.0, 1.0} and (bounds is None or (bounds.low >= 0 and bounds.high <= 1))


def _wilson_estimate(successes: float, trials: float, threshold: float, confidence: float) -> Estimate:
    """Wilson's interval, with the exact binomial test."""
    interval = wilson_interval(successes, trials, confidence)
    above = binomial_tail(successes, trials, threshold)
    below = binomial_tail(trials - successes, trials, 1 - threshold)
    return _build_estimate(successes / trials, interval, (above, below), "Wilson, exact binomial")


def _clustered_rate(values: Sequence[float], trials: int, threshold: float, confidence: float) -> Estimate:
    """Wilson's interval with the effective number of independent completions."""
    count, share = len(values), math.fsum(values) / len(values)
    variance = _variance(values, share)
    effective = float(count)
    if trials > count:
        estimated = max(effective, share * (1 - share) * count / variance) if variance else math.inf
        weight = _dispersion_weight(values, share)
        effective += weight * (min(float(trials), estimated) - effective)
    wide = student_t_quantile(0.5 + confidence / 2, count - 1) / normal_quantile(0.5 + confidence / 2)
    interval = wilson_interval(share * effective / wide**2, effective / wide**2, confidence)
    error = math.sqrt(max(0.0, threshold * (1 - threshold)) / effective)
    tails = _student_tails(share - threshold, error, count - 1)
    return _build_estimate(share, interval, tails, "Wilson, clustered by prompt")


def _dispersion_weight(values: Sequence[float], share: float) -> float:
    """The reliability of the estimated variance, from 0 to 1. It is 0 if few items differ from the majority.

    Without it, one failed completion among hundreds of prompts would make all completions independent.
    """
    extreme = float(share > 0.5)
    odd = sum(value != extreme for value in values)
    return max(0.0, (odd - _DISPERSION_PRIOR) / (odd + _DISPERSION_PRIOR))


def _student_estimate(
    values: Sequence[float],
    threshold: float,
    confidence: float,
    seed: int,
    bounds: Interval | None,
    method: str = "t",
) -> Estimate:
    """Student's interval, widened by a bootstrap if the distribution is skewed."""
    count, middle = len(values), math.fsum(values) / len(values)
    if min(values) == max(values):
        return _constant_values(values[0], count, threshold, confidence, bounds)
    error = math.sqrt(_variance(values, middle) / count) if count > 1 else math.inf
    half = student_t_quantile(0.5 + confidence / 2, count - 1) * error if error else 0.0
    interval = Interval(middle - half, middle + half)
    if error and count > 1:
        interval = interval.join(_widen_as_rate(values, middle, confidence))
    if error and count < _LARGE_SAMPLE:
        interval = interval.join(_bootstrap_interval(values, middle, error, confidence, seed))
        method = f"{method} and bootstrap"
    return _build_estimate(middle, interval, _student_tails(middle - threshold, error, count - 1), method)


def _constant_values(
    value: float, count: int, threshold: float, confidence: float, bounds: Interval | None
) -> Estimate:
    """Estimate from items that all have one value. The sample limits the share of items with other values,
    and the bounds limit their effect on the mean. Without bounds, the interval is infinite."""
    low, high = (bounds.low, bounds.high) if bounds is not None else (-math.inf, math.inf)
    unseen = 1 - ((1 - confidence) / 2) ** (1 / count)
    interval = Interval(
        value if value == low else value - (value - low) * unseen,
        value if value == high else value + (high - value) * unseen,
    )
    tails = (
        _constant_likelihood(value, low, threshold, count, -1),
        _constant_likelihood(value, high, threshold, count, 1),
    )
    return _build_estimate(value, interval, tails, "items all alike")


def _constant_likelihood(value: float, end: float, threshold: float, count: int, side: int) -> float:
    """The maximum probability of equal items if the true mean is at a threshold on this side of them."""
    gap, room = (threshold - value) * side, (end - value) * side
    if gap <= 0 or math.isinf(room):
        return 1.0
    return max(0.0, 1 - gap / room) ** count if room > 0 else 0.0


def _widen_as_rate(values: Sequence[float], middle: float, confidence: float) -> Interval:
    """Wilson's interval if nearly all values are the minimum or the maximum: the few others say little about
    the variance, so Student's interval would be too narrow."""
    least, most = min(values), max(values)
    odd = len(values) - max(sum(value == least for value in values), sum(value == most for value in values))
    if odd > min(_MIN_ODD_VALUES, len(values) / 2):
        return Interval(middle, middle)
    rate = wilson_interval(len(values) * (middle - least) / (most - least), len(values), confidence)
    return Interval(least + rate.low * (most - least), least + rate.high * (most - least))


def _bootstrap_interval(
    values: Sequence[float], middle: float, error: float, confidence: float, seed: int
) -> Interval:
    """The studentized bootstrap interval over items."""
    if not math.isfinite(error):
        return Interval(middle, middle)
    draw, count = random.Random(seed), len(values)
    gaps = [value - middle for value in values]
    scores: list[float] = []
    for _ in range(_BOOTSTRAP_DRAWS):
        drawn = draw.choices(gaps, k=count)
        mean = sum(drawn) / count
        variance = (sum(map(mul, drawn, drawn)) - count * mean * mean) / (count - 1)
        if variance > 1e-12 * error * error:
            scores.append(mean / math.sqrt(variance / count))
    if not scores:
        return Interval(middle, middle)
    scores.sort()
    tail = (1 - confidence) / 2
    low, high = (scores[min(len(scores) - 1, int(share * len(scores)))] for share in (tail, 1 - tail))
    return Interval(min(middle, middle - high * error), max(middle, middle - low * error))


def _paired_rates(better: int, worse: int, count: int, margin: float, confidence: float) -> Estimate:
    """The exact unconditional test of paired rates, with the interval of the gains that are not rejected."""
    level = (1 - confidence) / 2
    low, high = paired_gain_interval(better, worse, count, margin, level)
    tails = (
        paired_p_value(better, worse, count, margin, level),
        paired_p_value(worse, better, count, -margin, level),
    )
    value = (better - worse) / count
    return _build_estimate(value, Interval(low, high), tails, "exact unconditional test of pairs")


def _variance(values: Sequence[float], middle: float) -> float:
    """The sample variance; 0 for a single value."""
    if len(values) < 2 or min(values) == max(values):
        return 0.0
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _normal_tails(gap: float, error: float) -> tuple[float, float]:
    score = gap / error if error else math.copysign(math.inf, gap) if gap else 0.0
    return normal_cdf(-score), normal_cdf(score)


def _student_tails(gap: float, error: float, freedom: int) -> tuple[float, float]:
    if freedom < 1 or not error or not math.isfinite(error):
        return _normal_tails(gap, error)
    return student_t_cdf(-gap / error, freedom), student_t_cdf(gap / error, freedom)


def _build_estimate(value: float, interval: Interval, tails: tuple[float, float], method: str) -> Estimate:
    above, below = tails
    return Estimate(
        value=value, low=interval.low, high=interval.high, p_above=above, p_below=below, method=method
    )

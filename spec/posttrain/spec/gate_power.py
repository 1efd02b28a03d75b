"""What a gate can decide with a number of items: the power of the tests that the runtime uses."""

import math
from collections.abc import Callable

from posttrain.spec.column_types import Interval
from posttrain.spec.eval_statistics import binomial_tail, normal_quantile, wilson_interval
from posttrain.spec.paired_rates import (
    binomial_probability,
    critical_better,
    critical_score,
    paired_p_value,
    tango_score,
)

# The power at which a gate must detect `min_detectable_effect`.
POWER = 0.8
# Up to this number of pairs, every critical value is computed; above the second, only one score.
_FEW_PAIRS = 30
_MANY_PAIRS = 300
# The standard errors of the likely counts of pairs that differ.
_LIKELY_ERRORS = 2.0
_NEGLIGIBLE = 1e-7
# The quantile with which the search for a number of items converts power into a number of standard errors.
_CERTAIN = 1.96


def min_trials_for_rate(threshold: float, confidence: float) -> int:
    """The minimum number of trials, all successful, that show a rate above a threshold; -1 if none does."""
    if threshold >= 1:
        return -1
    z = normal_quantile(0.5 + confidence / 2)
    by_interval = math.floor(z * z * threshold / (1 - threshold)) + 1
    by_test = math.log((1 - confidence) / 2) / math.log(threshold) if threshold > 0 else 0
    return max(by_interval, math.ceil(by_test))


def min_items_for_mean(threshold: float, values: Interval, confidence: float) -> int:
    """The minimum number of items, all at the high end, that show a mean above a threshold; -1 if none does.

    `values` is the range of an item's value.
    """
    if threshold >= values.high:
        return -1
    if threshold <= values.low:
        return 1
    share = (threshold - values.low) / (values.high - values.low)
    return max(1, math.ceil(math.log((1 - confidence) / 2) / math.log(share)))


def min_pairs_for_gain(margin: float, confidence: float) -> int:
    """The minimum number of pairs, all improved, that show a gain above a margin; -1 if none does."""
    if margin >= 1:
        return -1
    level = (1 - confidence) / 2
    chance = (1 + margin) / 2  # of an improvement, if all pairs differ
    count = max(1, math.floor(math.log(level) / math.log(chance)) if chance > 0 else 1)
    while paired_p_value(count, 0, count, margin, level) > level:
        count += 1
    return count


def rate_power(count: int, threshold: float, effect: float, confidence: float) -> float:
    """The probability that a gate shows a rate above a threshold if it is above it by `effect`."""
    level = (1 - confidence) / 2
    low, high = math.floor(count * threshold), count + 1
    while high - low > 1:
        middle = (low + high) // 2
        shown = (
            binomial_tail(middle, count, threshold) <= level
            and wilson_interval(middle, count, confidence).low >= threshold
        )
        low, high = (low, middle) if shown else (middle, high)
    return binomial_tail(high, count, threshold + effect) if high <= count else 0.0


def paired_gain_power(
    count: int, margin: float, effect: float, confidence: float, disagreement: float
) -> float:
    """The probability that a gate shows a gain above a margin if it is above it by `effect`.

    `disagreement` is the share of pairs that differ. The critical values are exact for few pairs. For many,
    the critical score is computed for the likely counts of pairs that differ, and interpolated.
    """
    level, gain = (1 - confidence) / 2, margin + effect
    share = min(1.0, max(disagreement, abs(margin), abs(gain)))
    spread = math.sqrt(count * share * (1 - share))
    nodes: list[int] = []
    scores: list[float] = []
    if count > _FEW_PAIRS:
        errors = (0.0,) if count > _MANY_PAIRS else (-_LIKELY_ERRORS, 0.0, _LIKELY_ERRORS)
        nodes = sorted({min(count, max(0, round(count * share + k * spread))) for k in errors})
        scores = [critical_score(node, count, margin, level) for node in nodes]
    power, better = 0.0, 0
    for differing in range(count + 1):
        weight = binomial_probability(differing, count, share)
        if weight < _NEGLIGIBLE:
            continue
        better = min(better, differing)
        if count > _FEW_PAIRS:
            score = _interpolate(differing, nodes, scores)
            better = _first_above(differing, count, margin, score, better)
        else:
            better = critical_better(differing, count, margin, level, better)
        if better <= differing:
            power += weight * binomial_tail(better, differing, (share + gain) / (2 * share))
    return power


def _first_above(differing: int, count: int, margin: float, score: float, start: int) -> int:
    """The smallest number of better pairs with a score of at least `score`."""
    while start > 0 and tango_score(start - 1, differing - start + 1, count, margin) >= score:
        start -= 1
    while start <= differing and tango_score(start, differing - start, count, margin) < score:
        start += 1
    return start


def _interpolate(at: int, nodes: list[int], values: list[float]) -> float:
    """Linear interpolation, constant outside of the nodes."""
    for left, right, low, high in zip(nodes, nodes[1:], values, values[1:], strict=False):
        if left <= at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return values[0] if at < nodes[0] else values[-1]


def sample_size_for_rate(threshold: float, effect: float, confidence: float) -> int:
    """The trials that show a rate above a threshold with power 0.8 if it is above it by `effect`."""
    truth = threshold + effect
    certain, seen = normal_quantile(0.5 + confidence / 2), normal_quantile(POWER)
    spread = certain * math.sqrt(threshold * (1 - threshold)) + seen * math.sqrt(truth * (1 - truth))
    return _sample_size(
        (spread / effect) ** 2, lambda count: rate_power(count, threshold, effect, confidence)
    )


def sample_size_for_paired_gain(margin: float, effect: float, confidence: float, disagreement: float) -> int:
    """The pairs that show a gain above a margin with power 0.8 if it is above it by `effect`.

    `disagreement` is the share of items on which the two models differ. Only these items carry information.
    """
    truth = margin + effect
    certain, seen = normal_quantile(0.5 + confidence / 2), normal_quantile(POWER)
    changed = max(disagreement, abs(margin), abs(truth))
    spread = certain * math.sqrt(changed - margin**2) + seen * math.sqrt(changed - truth**2)
    return _sample_size(
        (spread / effect) ** 2,
        lambda count: paired_gain_power(count, margin, effect, confidence, disagreement),
    )


def _sample_size(normal: float, power: Callable[[int], float]) -> int:
    """A number of items with power 0.8, about 1 % above the smallest, from that of the normal approximation.

    The power is not monotone in the number of items, because outcomes are discrete.
    """
    count = max(1, math.ceil(normal))
    for _ in range(3):
        found = min(0.999, max(0.05, power(count)))
        ratio = normal_quantile(POWER) + _CERTAIN, normal_quantile(found) + _CERTAIN
        count = max(1, math.ceil(count * min(2.0, max(0.5, (ratio[0] / max(0.1, ratio[1])) ** 2))))
    while power(count) < POWER:
        count += max(1, count // 100)
    return count

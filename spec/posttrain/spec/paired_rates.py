"""The exact unconditional test of the difference of two paired rates.

The data are the numbers of pairs that became better and worse. The null hypothesis is that the true gain is
at most a margin. It does not determine the share of pairs that differ (the nuisance parameter), so the
p-value is the maximum over this share, as in Barnard's test. Outcomes are ordered by Tango's score. As
proposed by Berger and Boos, the maximum is over a confidence interval of the share, and the interval's error
is added to the p-value. The level holds for every number of pairs: `perf/gate_levels.md` enumerates it.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

from posttrain.spec.eval_statistics import binomial_tail, normal_quantile

# The error of the interval of the nuisance parameter, as a share of the level of the test.
_NUISANCE_SHARE = 1 / 1000
# The distance of the examined values of the nuisance parameter on the arcsine scale, times the root of the
# number of pairs. A standard error is 0.5.
_GRID_STEP = 0.12
_REFINEMENTS = 6
# The standard errors of a binomial count outside of which its probability is negligible.
_NEGLIGIBLE_TAIL = 7.0
_NEGLIGIBLE_TAIL_MASS = 1e-11
_SCORE_TOLERANCE = 1e-9
_END_TOLERANCE = 1e-4
# Around the critical score of Tango's test: gains at which the search for an end of the interval starts.
_SCORE_OFFSETS = (0.5, 0.1, -0.2)


def tango_score(better: int, worse: int, count: int, margin: float) -> float:
    """The distance of the observed difference from a margin, in standard errors."""
    linear = -better - worse + (2 * count - better + worse) * margin
    constant = -worse * margin * (1 - margin)
    root = math.sqrt(max(0.0, linear * linear - 8 * count * constant))
    falls = (root - linear) / (4 * count)
    variance = count * (2 * falls + margin * (1 - margin))
    gap = better - worse - count * margin
    if abs(gap) < 1e-9:
        return 0.0
    return gap / math.sqrt(variance) if variance > 1e-12 else math.copysign(math.inf, gap)


@cache
def paired_p_value(better: int, worse: int, count: int, margin: float, level: float) -> float:
    """The p-value of the null hypothesis that the gain is at most `margin`, for a test at `level`.

    `level` determines only how much of it the interval of the nuisance parameter uses.
    """
    score = tango_score(better, worse, count, margin)
    return 1.0 if score <= 0 or margin >= 1 else _p_value(score, better + worse, count, margin, level)


def _p_value(score: float, differing: int, count: int, margin: float, level: float) -> float:
    """The p-value of a positive score, with the interval of the nuisance parameter for so many pairs."""
    error = _NUISANCE_SHARE * level
    low, high = _differing_share(differing, count, error)
    if high <= -margin:
        return error  # a gain of at most a negative margin needs at least this share of pairs that differ
    least = abs(margin)
    region = _critical_counts(count, margin, score)

    def at(share: float) -> float:
        return _exceedance(region, count, margin, share)

    return min(1.0, _maximum(at, least, max(low, least), max(high, least), count) + error)


def critical_score(differing: int, count: int, margin: float, level: float) -> float:
    """The score from which the test rejects, for a number of pairs that differ, by bisection."""
    middle = normal_quantile(1 - level)
    low, high = middle - 0.3, middle + 0.7
    while high - low > 0.01:
        middle = (low + high) / 2
        rejected = _p_value(middle, differing, count, margin, level) <= level
        low, high = (low, middle) if rejected else (middle, high)
    return high


def critical_better(differing: int, count: int, margin: float, level: float, guess: int | None = None) -> int:
    """The smallest number of better pairs, of all that differ, with a p-value of at most `level`.

    It is `differing + 1` if no number suffices. `guess` is where the search starts.
    """
    found = differing + 1 if guess is None else min(max(guess, 0), differing + 1)
    while found > 0 and paired_p_value(found - 1, differing - found + 1, count, margin, level) <= level:
        found -= 1
    while found <= differing and paired_p_value(found, differing - found, count, margin, level) > level:
        found += 1
    return found


def paired_gain_interval(
    better: int, worse: int, count: int, margin: float, level: float
) -> tuple[float, float]:
    """The gains that the test does not reject at `level` on either side.

    The ends are on that side of `margin` on which the test puts them, and are rounded outwards.
    """
    low = _lower_end(better, worse, count, margin, level)
    high = -_lower_end(worse, better, count, -margin, level)
    return low, high


def _lower_end(better: int, worse: int, count: int, margin: float, level: float) -> float:
    """A rejected gain next to one that is not rejected, by bisection; -1 if none is rejected."""

    def rejects(gain: float) -> bool:
        return paired_p_value(better, worse, count, gain, level) <= level

    outer, inner = -1.0, (better - worse) / count
    for offset in _SCORE_OFFSETS:  # the end is close to that of Tango's test
        gain = _gain_at_score(better, worse, count, normal_quantile(1 - level) + offset)
        outer, inner = (max(outer, gain), inner) if rejects(gain) else (outer, min(inner, gain))
    if outer < margin < inner:
        outer, inner = (margin, inner) if rejects(margin) else (outer, margin)
    elif margin >= inner and rejects(margin):
        return margin
    while inner - outer > _END_TOLERANCE:
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if rejects(middle) else (outer, middle)
    return outer


def _gain_at_score(better: int, worse: int, count: int, score: float) -> float:
    """The gain at which Tango's score has a positive value, by bisection."""
    low, high = -1.0, (better - worse) / count
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tango_score(better, worse, count, middle) > score else (low, middle)
    return low


def _differing_share(differing: int, count: int, error: float) -> tuple[float, float]:
    """The exact interval of Clopper and Pearson for the share of pairs that differ."""

    def bound(successes: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if binomial_tail(successes, count, middle) < error / 2 else (low, middle)
            )
        return low

    return (
        bound(differing) if differing else 0.0,
        1 - bound(count - differing) if differing < count else 1.0,
    )


def _critical_counts(count: int, margin: float, score: float) -> Sequence[int]:
    """For each number of pairs that differ, the smallest number of better ones with at least this score."""
    found: list[int] = []
    better = 0
    for differing in range(count + 1):
        while (
            better <= differing
            and tango_score(better, differing - better, count, margin) < score - _SCORE_TOLERANCE
        ):
            better += 1
        found.append(better)
    return found


def _maximum(function: Callable[[float], float], least: float, low: float, high: float, count: int) -> float:
    """The maximum of a probability over the share of pairs that differ: a grid, then a refinement."""
    width = 1 - least
    first, last = (math.asin(math.sqrt(min(1.0, max(0.0, (share - least) / width)))) for share in (low, high))
    steps = max(2, math.ceil((last - first) * math.sqrt(count) / _GRID_STEP))

    def at(angle: float) -> float:
        return function(min(1.0, least + width * math.sin(angle) ** 2))

    step = (last - first) / steps
    values = [at(first + step * index) for index in range(steps + 1)]
    best = max(values)
    peak = first + step * values.index(best)
    for _ in range(_REFINEMENTS if step > 0 else 0):
        step /= 2
        for angle in (peak - step, peak + step):
            if first <= angle <= last:
                value = at(angle)
                if value > best:
                    best, peak = value, angle
    return best


def _exceedance(region: Sequence[int], count: int, margin: float, share: float) -> float:
    """The probability of at least `region[differing]` better pairs, if the gain is the margin."""
    if share <= 0:
        return float(region[0] <= 0)
    rise = min(1.0, max(0.0, (share + margin) / (2 * share)))
    first, last = _likely_range(count, share)
    weight = binomial_probability(first, count, share)
    tail, chance = _tail(region[first], first, rise)
    total = _NEGLIGIBLE_TAIL_MASS
    for differing in range(first, last + 1):
        total += weight * tail
        if differing == last:
            break
        weight *= (count - differing) / (differing + 1) * share / (1 - share)
        tail, chance = _next_tail(tail, chance, region[differing], region[differing + 1], differing, rise)
    return min(1.0, total)


def _likely_range(count: int, share: float) -> tuple[int, int]:
    """The counts outside of which a binomial distribution has a negligible probability."""
    if share >= 1:
        return count, count
    middle, error = count * share, math.sqrt(count * share * (1 - share))
    slack = (
        _NEGLIGIBLE_TAIL * error + 25
    )  # the tails are those of a Poisson distribution if the error is small
    return max(0, math.floor(middle - slack)), min(count, math.ceil(middle + slack))


def _next_tail(
    tail: float, chance: float, better: int, following: int, differing: int, rise: float
) -> tuple[float, float]:
    """The binomial tail and the probability at its start for one trial more, by recurrence."""
    if not 0 < rise < 1 or chance < 1e-250 or better > differing:
        return _tail(following, differing + 1, rise)
    if better > 0:
        tail += rise * chance * better / (differing - better + 1) * (1 - rise) / rise
    chance *= (differing + 1) / (differing + 1 - better) * (1 - rise)
    for count in range(better, following):
        tail -= chance
        if count == differing + 1:
            return 0.0, 0.0
        chance *= (differing + 1 - count) / (count + 1) * rise / (1 - rise)
    return tail, chance


def _tail(successes: int, trials: int, share: float) -> tuple[float, float]:
    """The probability of at least this many successes, and of exactly this many."""
    if successes > trials:
        return 0.0, 0.0
    return binomial_tail(successes, trials, share), binomial_probability(successes, trials, share)


def binomial_probability(successes: int, trials: int, share: float) -> float:
    """The probability of exactly this many successes."""
    if share <= 0 or share >= 1:
        return float(successes == (trials if share >= 1 else 0))
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return math.exp(ways + successes * math.log(share) + (trials - successes) * math.log1p(-share))

"""Tests and intervals for the mean of values in a known range, which hold their level for every sample size.

The test is Gaffke's (2005). To show that a mean is above a threshold, the sample gets one more value: the low
end of the range, as the worst value that was not seen. With Dirichlet(1, ..., 1) weights, the p-value is the
probability that the weighted mean is at most the threshold. For 0/1 values it is the exact binomial test; for
many items it approaches Student's. Its level is not proven for all distributions; no violation is known, and
`perf/gate_levels.md` enumerates the errors.

Dirichlet weights are exponential variables over their sum, so the event is that a sum of exponential
variables, times the distances of the values from the threshold, is not positive. Its probability is an
integral of the moment generating function over a line in the complex plane.
"""

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posttrain.runtime.evaluation.statistics.confidence_intervals import Estimate
from posttrain.spec.column_types import Interval
from posttrain.spec.eval_statistics import normal_quantile

_FIRST_STEP = 0.3
_MOST_HALVINGS = 6
_MOST = 60.0  # sinh of it is the largest number on the line
_NEGLIGIBLE = 1e-13
_ROOT_STEPS = 60
_PRECISION = 1e-7
_SADDLE_PRECISION = 1e-6  # any point near the saddle gives the same integral


def estimate_bounded_mean(
    values: Sequence[float], bounds: Interval, threshold: float, confidence: float
) -> Estimate:
    """Estimate the mean of values in a finite range, and compare it with a threshold."""
    interval = bounded_mean_interval(values, bounds, confidence)
    return Estimate(
        value=math.fsum(values) / len(values),
        low=interval.low,
        high=interval.high,
        p_above=p_mean_above(values, threshold, bounds.low),
        p_below=p_mean_below(values, threshold, bounds.high),
        method="test for bounded means",
    )


def p_mean_above(values: Sequence[float], threshold: float, low: float) -> float:
    """The one-sided p-value of "the mean is at most `threshold`"; `low` is the low end of the range."""
    return _probability_not_positive([value - threshold for value in (*values, low)])


def p_mean_below(values: Sequence[float], threshold: float, high: float) -> float:
    """The one-sided p-value of "the mean is at least `threshold`"; `high` is the high end of the range."""
    return _probability_not_positive([threshold - value for value in (*values, high)])


def bounded_mean_interval(values: Sequence[float], bounds: Interval, confidence: float) -> Interval:
    """The thresholds that neither of the two tests rejects."""
    error = (1 - confidence) / 2
    middle = math.fsum(values) / len(values)
    return Interval(
        _boundary(lambda mean: p_mean_above(values, mean, bounds.low), bounds.low, middle, error),
        _boundary(lambda mean: p_mean_below(values, mean, bounds.high), bounds.high, middle, error),
    )


def _boundary(p_value: Callable[[float], float], end: float, middle: float, error: float) -> float:
    """The mean between the end of the range and the middle of the sample at which the p-value is `error`.

    A search by the secants of the normal quantiles, which are nearly linear, inside a bracket.
    """
    if p_value(end) > error:
        return end
    target, rejected, kept = normal_quantile(error), end, middle
    known: list[tuple[float, float]] = []
    for _ in range(_ROOT_STEPS):
        mean = _next_mean(known, target, rejected, kept)
        p = p_value(mean)
        if p > error:
            kept = mean
        else:
            rejected = mean
        if abs(p - error) <= _PRECISION * error:
            return mean
        if abs(kept - rejected) <= _PRECISION * abs(end - middle):
            break
        if 0 < p < 1:
            known.append((mean, normal_quantile(p)))
    return rejected


def _next_mean(known: Sequence[tuple[float, float]], target: float, rejected: float, kept: float) -> float:
    if len(known) >= 2 and len(known) % 4:  # a bisection now and then narrows the bracket from both sides
        (left, low), (right, high) = known[-2:]
        if high != low:
            mean = right + (target - high) * (right - left) / (high - low)
            if min(rejected, kept) < mean < max(rejected, kept):
                return mean
    return (rejected + kept) / 2


def _probability_not_positive(factors: Sequence[float]) -> float:
    """The probability that a sum of standard exponential variables times `factors` is at most 0."""
    values, counts = np.unique(np.asarray([factor for factor in factors if factor]), return_counts=True)
    if not len(values) or values[-1] < 0:
        return 1.0
    if values[0] > 0:
        return 0.0
    total = _WeightedSum(values / np.abs(values).max(), counts.astype(float))
    saddle = total.saddle_point()
    tail = total.tail_integral(saddle)
    return min(1.0, max(0.0, tail if saddle < 0 else 1 - tail))


@dataclass(frozen=True)
class _WeightedSum:
    """A sum of independent standard exponential variables, `counts` of them times each of the `factors`.

    The factors ascend, from a negative to a positive one. Products are summed without BLAS, whose threads
    wait for each other on a busy machine.
    """

    factors: Any
    counts: Any

    def saddle_point(self) -> float:
        """The minimum of the cumulant generating function, between its two singularities."""
        below, above = 1 / self.factors[0], 1 / self.factors[-1]
        point = 0.0
        for _ in range(_ROOT_STEPS):
            slopes = self.factors / (1 - point * self.factors)
            slope = float((self.counts * slopes).sum())
            if slope > 0:
                above = point
            else:
                below = point
            newton = point - slope / float((self.counts * slopes**2).sum())
            following = newton if below < newton < above else (below + above) / 2
            if abs(following - point) <= _SADDLE_PRECISION * abs(following):
                break
            point = following
        return float(point)

    def tail_integral(self, saddle: float) -> float:
        """The probability of a positive sum if the saddle point is positive, else that of a sum that is not.

        The trapezoidal rule, with half the step until the sum does not change.
        """
        side = 1.0 if saddle >= 0 else -1.0
        edge = float(1 / self.factors[-1 if side > 0 else 0])
        variance = (self.counts * (self.factors / (1 - saddle * self.factors)) ** 2).sum()
        spread = 1 / math.sqrt(float(variance))
        # The line passes the saddle point, but not close to the pole at 0 or to the singularity.
        crossing = side * min(max(abs(saddle), min(spread, abs(edge) / 2)), 0.99 * abs(edge))
        width = min(spread, abs(crossing), abs(edge - crossing))
        step = _FIRST_STEP
        total = self._sum_terms(crossing, width, step, step) + self._integrand(crossing, width, 0.0) / 2
        for _ in range(_MOST_HALVINGS):
            finer = total + self._sum_terms(crossing, width, step / 2, step)
            converged = abs(finer - 2 * total) * step / 2 <= _NEGLIGIBLE * 1e3
            total, step = finer, step / 2
            if converged:
                break
        return side * total * step / math.pi

    def _sum_terms(self, crossing: float, width: float, start: float, step: float) -> float:
        total, at = 0.0, start
        while at < _MOST:
            term = self._integrand(crossing, width, at)
            total += term
            at += step
            if abs(term) * step <= _NEGLIGIBLE:
                break
        return total

    def _integrand(self, crossing: float, width: float, at: float) -> float:
        """The real part of the moment generating function over the point, at a place of the line."""
        point = complex(crossing, width * math.sinh(at))
        exponent = -complex((self.counts * np.log(1 - point * self.factors)).sum())
        return (cmath.exp(exponent) / point).real * width * math.cosh(at)

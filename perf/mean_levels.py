"""Enumerates the error rates of gates on means of values from 0 to 1; a part of `gate_levels.py`."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement
from multiprocessing import Pool
from random import Random

import numpy as np

from posttrain.runtime.evaluation.statistics.bounded_means import p_mean_above
from posttrain.runtime.evaluation.statistics.confidence_intervals import estimate_mean
from posttrain.spec.column_types import Interval

_LEVEL = 0.025
_POINTS = (0.0, 0.02, 0.1, 0.45, 0.55, 0.9, 0.98, 1.0)
_MIDDLE_SHARES = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95)
_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20)
_THRESHOLDS = (0.05, 0.3, 0.5, 0.7, 0.95)
_DRAWS = 2000
_DRAWN_COUNTS = (20, 100, 500)
Decision = Callable[[tuple[float, ...]], bool]


def print_mean_levels() -> None:
    print("\n## `at_least` on means of values from 0 to 1\n")
    shares = ", ".join(map(str, _MIDDLE_SHARES))
    print(
        f"The maximum over all distributions on three of the points {', '.join(map(str, _POINTS))} with the"
        f" true mean at one of the thresholds {', '.join(map(str, _THRESHOLDS))} and a share of the middle"
        f" point of {shares}, from all samples and their exact probabilities. By symmetry, `at_most` has the"
        " same errors."
        " `Student`: the decision by Student's test and interval, widened by a bootstrap. That the test keeps"
        " its level for every distribution is not proven; no violation is known, and none was found here.\n"
    )
    print("| items | gate | Student |\n|--:|--:|--:|")
    with Pool(2) as pool:
        for count, ours, other in pool.imap(_enumerate_level, _COUNTS):
            print(f"| {count} | {ours:.5f} | {other:.5f} |")
    print(
        f"\nThe share of wrong passes in {_DRAWS} samples of continuous distributions, each with its mean"
        f" as the threshold (standard error at the level: {math.sqrt(_LEVEL * (1 - _LEVEL) / _DRAWS):.4f}),"
        " and the share of passes for a threshold two standard errors below the mean.\n"
    )
    print("| distribution | items | gate | Student | power: gate | power: Student |")
    print("|:--|--:|--:|--:|--:|--:|")
    work = [(name, count) for name in _DISTRIBUTIONS for count in _DRAWN_COUNTS]
    with Pool(2) as pool:
        for (name, count), found in zip(work, pool.starmap(_drawn_levels, work, chunksize=1), strict=True):
            print(f"| {name} | {count} | {' | '.join(f'{share:.4f}' for share in found)} |")


def _enumerate_level(count: int) -> tuple[int, float, float]:
    worst = [0.0, 0.0]
    for threshold in _THRESHOLDS:
        decisions = _decide_gate(threshold), _decide_student(threshold)
        for points in combinations_with_replacement(_POINTS, 3):
            for weights in _weights(points, threshold):
                for which, decision in enumerate(decisions):
                    worst[which] = max(worst[which], _probability(points, weights, count, decision))
    return count, worst[0], worst[1]


def _decide_gate(threshold: float) -> Decision:
    @cache
    def decide(values: tuple[float, ...]) -> bool:
        return p_mean_above(values, threshold, 0.0) <= _LEVEL

    return decide


def _decide_student(threshold: float) -> Decision:
    @cache
    def decide(values: tuple[float, ...]) -> bool:
        if sum(values) <= threshold * len(values):
            return False
        found = estimate_mean(
            values,
            rate=False,
            trials=len(values),
            threshold=threshold,
            confidence=1 - 2 * _LEVEL,
            seed=1,
            bounds=Interval(0.0, 1.0),
        )
        return found.p_above <= _LEVEL and found.low >= threshold

    return decide


def _weights(points: Sequence[float], mean: float) -> Iterator[tuple[float, float, float]]:
    low, middle, high = points
    if not low < mean < high:
        return
    for share in _MIDDLE_SHARES:
        rest = (mean - share * middle) / (1 - share)
        if low <= rest <= high:
            upper = (rest - low) / (high - low) * (1 - share)
            yield 1 - share - upper, share, upper


def _probability(points: Sequence[float], weights: Sequence[float], count: int, passes: Decision) -> float:
    total = 0.0
    for first in range(count + 1):
        for second in range(count + 1 - first):
            counts = (first, second, count - first - second)
            chance = math.factorial(count) * math.prod(
                weight**n / math.factorial(n) for weight, n in zip(weights, counts, strict=True)
            )
            if chance > 1e-9:
                values = [value for value, n in zip(points, counts, strict=True) for _ in range(n)]
                total += chance * passes(tuple(values))
    return total


# The mean and the standard deviation of each distribution, and its values.
_DISTRIBUTIONS: dict[str, tuple[float, float, Callable[[Random], float]]] = {
    "uniform": (0.5, math.sqrt(1 / 12), lambda draw: draw.random()),
    "beta(8, 2)": (0.8, math.sqrt(16 / 1100), lambda draw: draw.betavariate(8, 2)),
    "beta(2, 8)": (0.2, math.sqrt(16 / 1100), lambda draw: draw.betavariate(2, 8)),
    "beta(0.2, 0.2)": (0.5, math.sqrt(0.25 / 1.4), lambda draw: draw.betavariate(0.2, 0.2)),
    "95 % beta(50, 5), 5 % zero": (
        0.95 * 50 / 55,
        math.sqrt(0.95 * (50 / 55 * 51 / 56) - (0.95 * 50 / 55) ** 2),
        lambda draw: draw.betavariate(50, 5) if draw.random() < 0.95 else 0.0,
    ),
}


def _drawn_levels(name: str, count: int) -> list[float]:
    mean, deviation, drawn = _DISTRIBUTIONS[name]
    lower = mean - 2 * deviation / math.sqrt(count)
    draw = Random(count)
    samples = [tuple(drawn(draw) for _ in range(count)) for _ in range(_DRAWS)]
    return [
        float(np.mean([decide(threshold)(values) for values in samples]))
        for threshold in (mean, lower)
        for decide in (_decide_gate, _decide_student)
    ]


if __name__ == "__main__":
    print_mean_levels()

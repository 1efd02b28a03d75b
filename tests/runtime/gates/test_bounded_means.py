"""Checks the test for bounded means against closed forms and exact enumerations."""

import math
import random
from functools import cache
from itertools import combinations_with_replacement

import pytest

from posttrain.runtime.evaluation.statistics.bounded_means import (
    bounded_mean_interval,
    p_mean_above,
    p_mean_below,
)
from posttrain.runtime.evaluation.statistics.verdicts import compare_items, compare_to_threshold
from posttrain.spec.column_types import Interval

UNIT = Interval(0.0, 1.0)


@pytest.mark.parametrize(("successes", "count"), [(0, 1), (1, 1), (3, 7), (20, 20), (19, 20), (60, 100)])
@pytest.mark.parametrize("threshold", [0.01, 0.3, 0.5, 0.9])
def test_for_outcomes_it_is_the_exact_binomial_test(successes, count, threshold):
    values = [1.0] * successes + [0.0] * (count - successes)
    chances = [math.comb(count, k) * threshold**k * (1 - threshold) ** (count - k) for k in range(count + 1)]
    assert p_mean_above(values, threshold, 0.0) == pytest.approx(math.fsum(chances[successes:]), abs=1e-11)
    below = math.fsum(chances[: successes + 1])
    assert p_mean_below(values, threshold, 1.0) == pytest.approx(below, abs=1e-11)


def probability_by_partial_fractions(factors):
    """P(sum of exponentials times distinct factors <= 0): the partial fractions of the negative factors."""
    return math.fsum(
        math.prod(one / (one - other) for other in factors if other != one) for one in factors if one < 0
    )


@pytest.mark.parametrize("seed", range(20))
def test_for_distinct_values_it_is_the_closed_form(seed):
    draw = random.Random(seed)
    low, high = sorted(draw.uniform(-3, 3) for _ in range(2))
    values = [draw.uniform(low, high) for _ in range(draw.randint(1, 7))]
    threshold = draw.uniform(low, high)
    expected = probability_by_partial_fractions([value - threshold for value in (*values, low)])
    assert p_mean_above(values, threshold, low) == pytest.approx(expected, abs=1e-8)
    expected = probability_by_partial_fractions([threshold - value for value in (*values, high)])
    assert p_mean_below(values, threshold, high) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("count", [1, 2, 5, 40, 1000])
def test_an_interval_ends_where_the_tests_reach_their_level(count, confidence):
    draw = random.Random(count)
    values = [draw.betavariate(2, 5) for _ in range(count)]
    interval = bounded_mean_interval(values, UNIT, confidence)
    error = (1 - confidence) / 2
    assert 0 < interval.low < math.fsum(values) / count < interval.high < 1
    assert p_mean_above(values, interval.low, 0.0) == pytest.approx(error, rel=1e-4)
    assert p_mean_below(values, interval.high, 1.0) == pytest.approx(error, rel=1e-4)


def test_an_interval_ends_at_the_range_where_nothing_can_be_beyond():
    assert bounded_mean_interval([0.0] * 9, UNIT, 0.95).low == 0.0
    assert bounded_mean_interval([1.0] * 9, UNIT, 0.95).high == 1.0


@pytest.mark.parametrize(("scale", "shift"), [(10.0, 0.0), (0.5, -3.0), (1e-6, 1e-6)])
def test_units_do_not_matter(scale, shift):
    draw = random.Random(7)
    values = [draw.random() for _ in range(30)]
    moved = [value * scale + shift for value in values]
    assert p_mean_above(moved, 0.4 * scale + shift, shift) == pytest.approx(p_mean_above(values, 0.4, 0.0))


POINTS = (0.0, 0.05, 0.5, 0.93, 1.0)
LEVEL = 0.025


@pytest.mark.parametrize("count", [2, 4, 7])
def test_wrong_passes_are_rarer_than_the_level(count):
    """All samples of distributions of three points, whose true mean is the threshold."""
    for threshold in (0.1, 0.5, 0.92):
        above = cache(lambda values, at=threshold: p_mean_above(values, at, 0.0) <= LEVEL)
        below = cache(lambda values, at=threshold: p_mean_below(values, at, 1.0) <= LEVEL)
        for points in combinations_with_replacement(POINTS, 3):
            for weights in distributions(points, threshold):
                assert wrong_passes(points, weights, count, above) <= LEVEL
                assert wrong_passes(points, weights, count, below) <= LEVEL


def distributions(points, mean):
    """Some weights of three points that give the mean."""
    low, middle, high = points
    if not low < mean < high:
        return
    for share in (0.0, 0.2, 0.5, 0.9):
        rest = (mean - share * middle) / (1 - share)
        if low <= rest <= high:
            upper = (rest - low) / (high - low) * (1 - share)
            yield (1 - share - upper, share, upper)


def wrong_passes(points, weights, count, passes):
    total = 0.0
    for drawn in combinations_with_replacement(range(3), count):
        counts = [drawn.count(place) for place in range(3)]
        chance = math.factorial(count) * math.prod(
            weight**n / math.factorial(n) for weight, n in zip(weights, counts, strict=True)
        )
        if chance > 0 and passes(tuple(sorted(points[place] for place in drawn))):
            total += chance
    return total


def test_values_close_together_do_not_show_that_no_item_is_far_away():
    """With 5 items, one in ten at the low end remains unseen in six of ten samples."""
    values = dict(enumerate([0.9, 0.91, 0.9, 0.91, 0.92]))
    assert compare_to_threshold(values, "at_least", 0.85, 0.95, 1, UNIT)["verdict"] == "inconclusive"


def test_gains_are_compared_in_twice_the_range():
    after, before = dict.fromkeys(range(4), 0.6), {n: 0.5 + n / 100 for n in range(4)}
    found = compare_items(after, before, 0.0, 0.95, 1, UNIT)
    assert (found["verdict"], found["method"]) == ("inconclusive", "test for bounded means")
    assert -1 <= found["low"] < found["value"] < found["high"] <= 1
    many = compare_items(dict.fromkeys(range(400), 0.9), dict.fromkeys(range(400), 0.3), 0.5, 0.95, 1, UNIT)
    assert many["verdict"] == "pass"


def test_a_rate_over_several_completions_uses_the_range_of_a_rate():
    found = compare_to_threshold({n: (n % 5) / 4 for n in range(20)}, "at_least", 0.3, 0.95, 1, bounds=UNIT)
    assert found["method"] == "test for bounded means"

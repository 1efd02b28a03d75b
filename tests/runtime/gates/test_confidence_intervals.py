"""Intervals and tests, checked against known values, exact sums, and simulations."""

import math
import random

import pytest

from posttrain.runtime.evaluation.statistics.confidence_intervals import (
    Estimate,
    estimate_difference,
    estimate_mean,
)
from posttrain.spec.column_types import Interval
from posttrain.spec.eval_statistics import (
    binomial_tail,
    student_t_cdf,
    student_t_quantile,
    wilson_interval,
)
from posttrain.spec.gate_power import (
    min_trials_for_rate,
    sample_size_for_paired_gain,
    sample_size_for_rate,
)


@pytest.mark.parametrize(
    ("freedom", "known"), [(1, 12.7062047), (9, 2.2621572), (30, 2.0422725), (199, 1.9719565)]
)
def test_students_quantiles_are_the_tables(freedom: int, known: float):
    assert student_t_quantile(0.975, freedom) == pytest.approx(known, abs=1e-6)
    assert student_t_cdf(known, freedom) == pytest.approx(0.975, abs=1e-8)
    assert student_t_cdf(-known, freedom) == pytest.approx(0.025, abs=1e-8)


@pytest.mark.parametrize(
    ("successes", "trials", "share"), [(90, 100, 0.8), (1, 7, 0.2), (7, 7, 0.9), (0, 3, 0.5)]
)
def test_binomial_tails_are_the_sums(successes: int, trials: int, share: float):
    chances = [
        math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(successes, trials + 1)
    ]
    assert binomial_tail(successes, trials, share) == pytest.approx(sum(chances), rel=1e-10)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.97, 0.995])
@pytest.mark.parametrize("trials", [20, 50, 200])
def test_wilsons_interval_holds_the_truth_as_often_as_it_says(share: float, trials: int):
    held = 0.0
    for successes in range(trials + 1):
        chance = math.comb(trials, successes) * share**successes * (1 - share) ** (trials - successes)
        interval = wilson_interval(successes, trials, 0.95)
        held += chance * (interval.low <= share <= interval.high)
    assert held > 0.93


@pytest.mark.parametrize("margin", [-0.1, 0.0, 0.1])
def test_the_interval_and_the_test_of_pairs_agree(margin: float):
    """The test becomes significant at the bound of its interval."""
    after, before = [1.0] * 30 + [0.0] * 12 + [1.0] * 58, [0.0] * 30 + [1.0] * 12 + [1.0] * 58
    found = estimate_difference(after, before, margin=margin, confidence=0.95, seed=1)
    at_low = estimate_difference(after, before, margin=found.low, confidence=0.95, seed=1)
    at_high = estimate_difference(after, before, margin=found.high, confidence=0.95, seed=1)
    assert found.value == pytest.approx(0.18)
    assert at_low.p_above == pytest.approx(0.025, abs=5e-4)
    assert at_high.p_below == pytest.approx(0.025, abs=5e-4)


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.8])
@pytest.mark.parametrize(("share", "count"), [(0.8, 100), (0.95, 30), (0.99, 100)])
def test_clustered_rates_hold_the_truth(share: float, count: int, alike: float):
    by, runs, held = random.Random(f"{share} {count} {alike}"), 300, 0
    for _ in range(runs):
        values: list[float] = []
        for _ in range(count):
            weight = 1 / alike - 1 if alike else 0.0
            own = by.betavariate(share * weight, (1 - share) * weight) if alike else share
            values.append(sum(by.random() < own for _ in range(4)) / 4)
        found = estimate_mean(values, rate=True, trials=4 * count, threshold=share, confidence=0.95, seed=1)
        held += found.low <= share <= found.high
    assert held / runs > 0.92


def test_how_many_items_it_takes():
    """The normal approximation for 80 % power is 626, 1742 and 107 items."""
    assert sample_size_for_paired_gain(0.0, 0.05, 0.95, 0.2) == pytest.approx(626, rel=0.03)
    assert sample_size_for_paired_gain(0.0, 0.03, 0.95, 0.2) == pytest.approx(1742, rel=0.03)
    assert 107 <= sample_size_for_rate(0.8, 0.1, 0.95) <= 118
    needed = min_trials_for_rate(0.8, 0.95)
    shown = [
        estimate_mean([1.0] * n, rate=True, trials=n, threshold=0.8, confidence=0.95, seed=1)
        for n in (needed, needed - 1)
    ]
    assert [one.low >= 0.8 and one.p_above <= 0.025 for one in shown] == [True, False]


def test_power_is_what_it_is_said_to_be():
    """A gate at 0.8, sized for an effect of 0.1, passes about 4 times in 5 if the rate is 0.9."""
    needed, by = sample_size_for_rate(0.8, 0.1, 0.95), random.Random(1)
    passed = 0
    for _ in range(1000):
        values = [float(by.random() < 0.9) for _ in range(needed)]
        found = estimate_mean(values, rate=True, trials=needed, threshold=0.8, confidence=0.95, seed=1)
        passed += found.low >= 0.8 and found.p_above <= 0.025
    assert 0.74 < passed / 1000 < 0.86


def test_means_that_are_all_alike_say_how_rare_others_must_be():
    def of(value: float, count: int, threshold: float, *, bounded: bool = True) -> Estimate:
        return estimate_mean(
            [value] * count,
            rate=False,
            trials=count,
            threshold=threshold,
            confidence=0.95,
            seed=1,
            bounds=Interval(0.0, 10.0) if bounded else None,
        )

    unseen = 1 - 0.025 ** (1 / 20)  # a higher share would have been observed among twenty items
    for value, low, high in (
        (10.0, 10 - 10 * unseen, 10.0),
        (0.0, 0.0, 10 * unseen),
        (1.0, 1 - unseen, 1 + 9 * unseen),
    ):
        found = of(value, 20, 0.5)
        assert (found.low, found.high) == pytest.approx((low, high))
    edge = of(10.0, 20, 10 - 10 * unseen)  # the test and the interval agree
    assert edge.p_above == pytest.approx(0.025)
    assert edge.p_below == 1.0
    assert of(10.0, 3, 9.9).p_above > 0.9
    unknown = of(5.0, 20, 4.0, bounded=False)
    assert (unknown.low, unknown.high, unknown.p_above) == (-math.inf, math.inf, 1.0)


def test_a_score_of_one_in_ten_is_no_rate():
    values = [0.0] * 15 + [1.0] * 5
    given = {"rate": False, "trials": 20, "threshold": 0.5, "confidence": 0.95, "seed": 1}
    assert estimate_mean(values, **given, bounds=Interval(0.0, 1.0)).method.startswith("Wilson")
    assert estimate_mean(values, **given, bounds=Interval(0.0, 10.0)).method.startswith("t")


def test_gains_that_are_all_alike_are_not_certain():
    after, before = [3.0] * 8, [2.0] * 8
    given = {"margin": 0.0, "confidence": 0.95, "seed": 1}
    found = estimate_difference(after, before, **given, bounds=Interval(0.0, 10.0))
    assert found.low < 0 < found.high
    assert found.p_above > 0.025

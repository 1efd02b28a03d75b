"""The exact test of paired rates: its level and power, by enumeration of all outcomes."""

import math
from collections.abc import Callable

import pytest

from posttrain.spec.gate_power import (
    POWER,
    min_pairs_for_gain,
    paired_gain_power,
    rate_power,
    sample_size_for_paired_gain,
    sample_size_for_rate,
)
from posttrain.spec.paired_rates import paired_gain_interval, paired_p_value, tango_score

_LEVEL = 0.025


def probability(decides: Callable[[int, int], bool], count: int, gain: float, share: float) -> float:
    """The probability of the decision for a true gain and share of pairs that differ, over all outcomes."""
    up, down = (share + gain) / 2, (share - gain) / 2
    total = 0.0
    for better in range(count + 1):
        for worse in range(count + 1 - better):
            same = count - better - worse
            ways = math.comb(count, better) * math.comb(count - better, worse)
            chance = ways * up**better * max(0.0, down) ** worse * max(0.0, 1 - share) ** same
            if chance > 1e-15 and decides(better, worse):
                total += chance
    return total


def rejects(count: int, margin: float) -> Callable[[int, int], bool]:
    return lambda better, worse: paired_p_value(better, worse, count, margin, _LEVEL) <= _LEVEL


@pytest.mark.parametrize("margin", [-0.3, -0.1, -0.02, 0.0, 0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 24])
def test_a_margin_holds_its_level(count: int, margin: float):
    """A gain of exactly the margin passes with a probability of at most 2.5 %, however many pairs differ."""
    least = abs(margin)
    for step in range(41):
        share = least + (1 - least) * math.sin(math.pi / 2 * step / 40) ** 2
        assert probability(rejects(count, margin), count, margin, share) <= _LEVEL, share


def test_the_normal_quantile_would_not_hold_the_level():
    """The test of these enumerations can fail: Tango's score with the normal quantile exceeds the level."""

    def normal(better: int, worse: int) -> bool:
        return tango_score(better, worse, 24, 0.1) >= 1.959964

    assert max(probability(normal, 24, 0.1, 0.1 + step / 50) for step in range(46)) > 0.03


def test_a_smaller_gain_is_rejected_less_often():
    for gain, share in ((0.0, 0.1), (0.0, 0.4), (-0.2, 0.3), (0.04, 0.05), (0.02, 0.02)):
        assert probability(rejects(20, 0.05), 20, gain, share) <= _LEVEL


@pytest.mark.parametrize("margin", [-0.1, 0.0, 0.1])
def test_the_order_of_outcomes_is_monotone(margin: float):
    """More better pairs or fewer worse ones never lower the score."""
    for count in (1, 2, 7, 20):
        for better in range(count):
            for worse in range(count - better):
                score = tango_score(better, worse, count, margin)
                assert tango_score(better + 1, worse, count, margin) >= score - 1e-9
                assert tango_score(better, worse + 1, count, margin) <= score + 1e-9


@pytest.mark.parametrize("margin", [-0.05, 0.0, 0.1])
def test_the_interval_agrees_with_the_test(margin: float):
    for better, worse, count in ((30, 12, 100), (12, 30, 100), (7, 0, 7), (0, 0, 40), (0, 5, 5), (1, 0, 1)):
        low, high = paired_gain_interval(better, worse, count, margin, _LEVEL)
        assert low <= (better - worse) / count <= high
        assert (low >= margin) == (paired_p_value(better, worse, count, margin, _LEVEL) <= _LEVEL)
        assert (high <= margin) == (paired_p_value(worse, better, count, -margin, _LEVEL) <= _LEVEL)


def test_extreme_outcomes():
    assert paired_p_value(0, 0, 50, 0.0, _LEVEL) == 1.0
    assert paired_p_value(5, 5, 10, 0.0, _LEVEL) == 1.0
    assert paired_p_value(1, 0, 1, 0.0, _LEVEL) == pytest.approx(0.5, abs=1e-3)
    assert paired_p_value(10, 0, 10, 0.0, _LEVEL) == pytest.approx(0.5**10, abs=1e-4)
    assert paired_p_value(10, 0, 10, 0.2, _LEVEL) == pytest.approx(0.6**10, abs=1e-4)
    assert 0.98**400 < paired_p_value(0, 0, 400, -0.02, _LEVEL) < 0.001


@pytest.mark.parametrize("margin", [-0.3, -0.05, 0.0, 0.05, 0.3])
def test_the_fewest_pairs_that_can_pass(margin: float):
    needed = min_pairs_for_gain(margin, 0.95)
    assert rejects(needed, margin)(needed, 0)
    assert not rejects(needed - 1, margin)(needed - 1, 0)


@pytest.mark.parametrize(
    ("margin", "effect", "differ"), [(0.0, 0.2, 0.3), (-0.1, 0.1, 0.2), (0.05, 0.3, 0.4)]
)
def test_predicted_power_is_the_probability_of_a_pass(margin: float, effect: float, differ: float):
    for count, tolerance in ((20, 1e-6), (40, 0.01)):
        exact = probability(rejects(count, margin), count, margin + effect, differ)
        assert paired_gain_power(count, margin, effect, 0.95, differ) == pytest.approx(exact, abs=tolerance)


def test_the_required_items_have_the_power():
    needed = sample_size_for_paired_gain(0.0, 0.2, 0.95, 0.3)
    assert paired_gain_power(needed, 0.0, 0.2, 0.95, 0.3) >= POWER
    assert paired_gain_power(round(0.9 * needed), 0.0, 0.2, 0.95, 0.3) < POWER
    needed = sample_size_for_rate(0.8, 0.1, 0.95)
    assert rate_power(needed, 0.8, 0.1, 0.95) >= POWER
    assert rate_power(round(0.9 * needed), 0.8, 0.1, 0.95) < POWER

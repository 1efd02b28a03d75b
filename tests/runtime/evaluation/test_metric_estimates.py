"""Estimates of metrics with several completions per item."""

import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.evaluation.metric_tables import add_pass_at_k, compare_models, compute_breakdowns
from posttrain.runtime.evaluation.statistics.metric_estimates import measure_metric, pass_at_k


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8))
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_one(right: list[bool], k: int):
    if k > len(right):
        assert pass_at_k(right, k) is None
    else:
        draws = list(combinations(right, k))
        assert pass_at_k(right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def scored(items: int, samples: int, chance: float, seed: int) -> list[dict[str, Any]]:
    """Completions of items with different success probabilities."""
    draw = random.Random(seed)
    found: list[dict[str, Any]] = []
    for item in range(items):
        own = min(1.0, max(0.0, chance + draw.choice((-0.3, 0.3))))
        found += [{"item": item, "node:right": draw.random() < own} for _ in range(samples)]
    return found


@pytest.mark.parametrize(
    "metric", [{"kind": "rate", "node": "right"}, {"kind": "pass_at", "node": "right", "k": 3}]
)
def test_intervals_hold_the_truth_as_often_as_they_say(metric: dict[str, Any]):
    truth = {"rate": 0.5, "pass_at": sum(1 - (1 - p) ** 3 for p in (0.2, 0.8)) / 2}[metric["kind"]]
    held = 0
    for seed in range(200):
        found = measure_metric(metric, scored(60, 4, 0.5, seed), 1)
        held += found["low"] <= truth <= found["high"]
    assert held >= 180  # The expected count is 190. The bootstrap over sixty items is slightly too narrow.


def test_an_item_with_too_few_values_has_no_pass_at_k():
    flat = [{"item": 0, "node:right": True}, {"item": 0, "node:right": None}]
    flat += [{"item": 1, "node:right": True}, {"item": 1, "node:right": False}]
    metrics = add_pass_at_k(flat, {"two": {"kind": "pass_at", "node": "right", "k": 2}})
    found = measure_metric(metrics["two"], flat, 1)
    assert (found["value"], found["items"], found["unscored"]) == (1.0, 1, 2)
    assert found["low"] < 1.0  # a single item has a wide interval, even if all its completions agree


def test_breakdowns_give_every_value_its_own_figure():
    flat = [{"item": n, "level": n % 3, "node:right": n % 3 == 0} for n in range(30)]
    flat.append({"item": 30, "level": None, "node:right": None})
    found = compute_breakdowns(flat, {"right": {"kind": "rate", "node": "right"}}, ["level"], 1)
    assert [(one["value"], one["items"], one["unscored"]) for one in found] == [
        (1.0, 10, 0),
        (0.0, 10, 0),
        (0.0, 10, 0),
        (None, 0, 1),
    ]


def test_models_are_compared_on_the_items_that_both_have():
    first = [{"item": n, "node:right": n < 5} for n in range(10)]
    second = [{"item": n, "node:right": None if n == 9 else n < 7} for n in range(10)]
    (found,) = compare_models({"a": first, "b": second}, {"right": {"kind": "rate", "node": "right"}}, 1)
    assert (found["model"], found["baseline"], found["items"]) == ("b", "a", 9)
    assert found["value"] == pytest.approx(2 / 9)
    assert (found["better"], found["worse"]) == (2, 0)

"""Estimates metrics over items, with the intervals of `confidence_intervals.py`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.evaluation.statistics.confidence_intervals import estimate_mean
from posttrain.spec.column_types import Interval

CONFIDENCE = 0.95


def measure_metric(
    metric: Mapping[str, Any], scored: Sequence[Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    """Estimate a metric over scored completions. Those without a value are counted, not treated as 0."""
    items = item_values(metric, scored)
    values = list(items.values())
    valued = sum(row[f"node:{metric['node']}"] is not None for row in scored)
    average, low, high = _interval(values, metric, valued, seed)
    unscored = sum(row[f"node:{metric['node']}"] is None for row in scored)
    return {
        "kind": metric["kind"],
        "node": metric["node"],
        "value": average,
        "low": low,
        "high": high,
        "items": len(values),
        "unscored": unscored,
        **({"range": metric["range"]} if "range" in metric else {}),
    }


def value_bounds(metric: Mapping[str, Any]) -> Interval | None:
    """The range of an item's value, if its kind or the reward graph determines it."""
    if metric["kind"] in ("rate", "pass_at"):
        return Interval(0.0, 1.0)
    return Interval(*metric["range"]) if "range" in metric else None


def item_values(metric: Mapping[str, Any], scored: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The metric of each item: the mean of its completions, or pass@k."""
    if "k" not in metric:
        return item_means(metric["node"], scored)
    correct: dict[int, list[bool]] = {}
    for row in scored:
        value = row[f"node:{metric['node']}"]
        if value is not None:
            correct.setdefault(row["item"], []).append(bool(value))
    passed = {item: pass_at_k(values, metric["k"]) for item, values in correct.items()}
    return {item: value for item, value in passed.items() if value is not None}


def pass_at_k(correct: Sequence[bool], k: int) -> float | None:
    """The unbiased estimate of pass@k: the probability that k random completions include a correct one.

    None if fewer than k completions have a value.
    """
    count, wrong = len(correct), len(correct) - sum(correct)
    return 1.0 - math.comb(wrong, k) / math.comb(count, k) if count >= k else None


def item_means(node: str, scored: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The mean of each item's completions, which are not independent."""
    by_item: dict[int, list[float]] = {}
    for row in scored:
        value = row[f"node:{node}"]
        if value is not None:
            by_item.setdefault(row["item"], []).append(float(value))
    return {item: sum(values) / len(values) for item, values in by_item.items()}


def _interval(
    values: Sequence[float], metric: Mapping[str, Any], trials: int, seed: int
) -> tuple[float | None, float | None, float | None]:
    """The mean with its interval. A single item has no interval unless the metric is a rate."""
    if not values:
        return None, None, None
    estimate = estimate_mean(
        values,
        rate=metric["kind"] in ("rate", "pass_at"),
        trials=trials,
        threshold=0.5,
        confidence=CONFIDENCE,
        seed=seed,
        bounds=value_bounds(metric),
    )
    bounded = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    return estimate.value, estimate.low if bounded else None, estimate.high if bounded else None

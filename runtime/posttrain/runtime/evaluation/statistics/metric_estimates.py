"""Metrics with their intervals, over items: see `confidence_intervals.py` for the intervals."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.evaluation.statistics.confidence_intervals import estimate_mean
from posttrain.spec.column_types import Interval

CONFIDENCE = 0.95


def measure_metric(
    metric: Mapping[str, Any], scored: Sequence[Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    """A metric over scored completions; those without a value are counted, never taken for zero."""
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
    """The least and the greatest value of an item, where the reward graph says."""
    return Interval(*metric["range"]) if "range" in metric else None


def item_values(metric: Mapping[str, Any], scored: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The metric of each item: its mean, or how likely k of its completions hold one that is right."""
    if "k" not in metric:
        return item_means(metric["node"], scored)
    right: dict[int, list[bool]] = {}
    for row in scored:
        value = row[f"node:{metric['node']}"]
        if value is not None:
            right.setdefault(row["item"], []).append(bool(value))
    passed = {item: pass_at_k(values, metric["k"]) for item, values in right.items()}
    return {item: value for item, value in passed.items() if value is not None}


def pass_at_k(right: Sequence[bool], k: int) -> float | None:
    """The chance that k of these completions, drawn at random, hold one that is right: unbiased.

    None when fewer than k of them have a value.
    """
    count, wrong = len(right), len(right) - sum(right)
    return 1.0 - math.comb(wrong, k) / math.comb(count, k) if count >= k else None


def item_means(node: str, scored: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The mean over each item's completions: completions of one prompt are not independent."""
    found: dict[int, list[float]] = {}
    for row in scored:
        value = row[f"node:{node}"]
        if value is not None:
            found.setdefault(row["item"], []).append(float(value))
    return {item: sum(values) / len(values) for item, values in found.items()}


def _interval(
    values: Sequence[float], metric: Mapping[str, Any], trials: int, seed: int
) -> tuple[float | None, float | None, float | None]:
    """The mean with its bounds; one item that is no rate has none."""
    if not values:
        return None, None, None
    found = estimate_mean(
        values,
        rate=metric["kind"] in ("rate", "pass_at"),
        trials=trials,
        threshold=0.5,
        confidence=CONFIDENCE,
        seed=seed,
        bounds=value_bounds(metric),
    )
    bounded = math.isfinite(found.low) and math.isfinite(found.high)
    return found.value, found.low if bounded else None, found.high if bounded else None

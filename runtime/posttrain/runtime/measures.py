"""Metrics with their intervals: Wilson's for rates, a seeded bootstrap over items for means."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.spec.statistics import wilson

CONFIDENCE = 0.95
_DRAWS = 1000


def measure(metric: Mapping[str, str], scored: Sequence[Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """A metric over scored completions; those without a value are counted, never taken for zero."""
    items = item_means(metric["node"], scored)
    values = list(items.values())
    average = sum(values) / len(values) if values else None
    several = len(scored) > len({row["item"] for row in scored})
    if average is None:
        low = high = None
    elif metric["kind"] == "rate" and not several:
        interval = wilson(sum(values), len(values), CONFIDENCE)
        low, high = interval.low, interval.high
    else:
        low, high = bootstrap(values, seed, CONFIDENCE)
    unscored = sum(row[f"node:{metric['node']}"] is None for row in scored)
    return {
        "kind": metric["kind"],
        "node": metric["node"],
        "value": average,
        "low": low,
        "high": high,
        "items": len(values),
        "unscored": unscored,
    }


def item_means(node: str, scored: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The mean over each item's completions: completions of one prompt are not independent."""
    found: dict[int, list[float]] = {}
    for row in scored:
        value = row[f"node:{node}"]
        if value is not None:
            found.setdefault(row["item"], []).append(float(value))
    return {item: sum(values) / len(values) for item, values in found.items()}


def bootstrap(values: Sequence[float], seed: int, confidence: float) -> tuple[float, float]:
    """The percentile interval of the mean, from resampled items."""
    if len(set(values)) == 1:
        return values[0], values[0]
    draw = random.Random(seed)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(_DRAWS))
    tail = (1 - confidence) / 2
    return means[int(tail * _DRAWS)], means[min(_DRAWS - 1, int((1 - tail) * _DRAWS))]

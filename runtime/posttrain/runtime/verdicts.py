"""Three-valued verdicts: pass when the bound proves it, fail when it proves the contrary, else open."""

import math
from collections.abc import Mapping
from typing import Any

from posttrain.runtime.measures import bootstrap
from posttrain.spec.statistics import wilson


def decided(
    kind: str, items: Mapping[int, float], side: str, threshold: float, confidence: float, seed: int
) -> dict[str, Any]:
    """A metric against a threshold."""
    values = list(items.values())
    if not values:
        return {"verdict": "inconclusive", "value": None, "low": None, "high": None, "items": 0}
    if kind == "rate" and all(value in (0.0, 1.0) for value in values):
        interval = wilson(sum(values), len(values), confidence)
        low, high = interval.low, interval.high
    else:
        low, high = bootstrap(values, seed, confidence)
    return {
        "verdict": verdict(low, high, threshold, side),
        "value": math.fsum(values) / len(values),
        "low": low,
        "high": high,
        "threshold": threshold,
        "items": len(values),
    }


def verdict(low: float, high: float, threshold: float, side: str) -> str:
    if side == "at_most":
        low, high, threshold = -high, -low, -threshold
    if low >= threshold:
        return "pass"
    return "fail" if high < threshold else "inconclusive"


def compared(
    items: Mapping[int, float], baseline: Mapping[int, float], margin: float, confidence: float, seed: int
) -> dict[str, Any]:
    """A metric against another on the same items, by the differences of the items that both have."""
    shared = sorted(set(items) & set(baseline))
    gains = [items[item] - baseline[item] for item in shared]
    if not gains:
        return {"verdict": "inconclusive", "value": None, "low": None, "high": None, "items": 0}
    low, high = bootstrap(gains, seed, confidence)
    return {
        "verdict": "pass" if low > margin else "fail" if high <= margin else "inconclusive",
        "value": math.fsum(gains) / len(gains),
        "low": low,
        "high": high,
        "threshold": margin,
        "items": len(shared),
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
    }

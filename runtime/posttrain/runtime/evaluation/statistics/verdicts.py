"""Three-valued verdicts: pass when the data show it, fail when they show the contrary, else open."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from posttrain.runtime.evaluation.statistics.confidence_intervals import (
    Estimate,
    estimate_difference,
    estimate_mean,
)
from posttrain.spec.column_types import Interval

Verdict = Literal["pass", "fail", "inconclusive"]
Correction = Literal["holm", "none"]


def compare_to_threshold(
    kind: str,
    items: Mapping[int, float],
    side: str,
    threshold: float,
    confidence: float,
    seed: int,
    trials: int | None = None,
    bounds: Interval | None = None,
) -> dict[str, Any]:
    """A metric against a threshold. `trials` counts the completions behind the items."""
    values = list(items.values())
    if not values:
        return _no_items()
    rate = kind in ("rate", "pass_at")
    found = estimate_mean(
        values,
        rate=rate,
        trials=trials or len(values),
        threshold=threshold,
        confidence=confidence,
        seed=seed,
        bounds=bounds,
    )
    return {
        "verdict": _threshold_verdict(found, threshold, side, confidence),
        **_estimate_record(found),
        "threshold": threshold,
        "items": len(values),
        "p_against": found.p_above if side == "at_most" else found.p_below,
    }


def _threshold_verdict(found: Estimate, threshold: float, side: str, confidence: float) -> Verdict:
    """Shown when interval and test say so; they differ by a little where the test is exact."""
    error = (1 - confidence) / 2
    over = found.low >= threshold and found.p_above <= error
    under = found.high <= threshold and found.p_below <= error
    if side == "at_most":
        over, under = under, over
    return "pass" if over else "fail" if under else "inconclusive"


def compare_items(
    items: Mapping[int, float],
    baseline: Mapping[int, float],
    margin: float,
    confidence: float,
    seed: int,
    bounds: Interval | None = None,
) -> dict[str, Any]:
    """A metric against another on the same items, by the differences of the items that both have."""
    shared = sorted(set(items) & set(baseline))
    if not shared:
        return _no_items()
    after, before = [items[item] for item in shared], [baseline[item] for item in shared]
    found = estimate_difference(after, before, margin=margin, confidence=confidence, seed=seed, bounds=bounds)
    gains = [one - other for one, other in zip(after, before, strict=True)]
    return {
        "verdict": _gain_verdict(found, margin, confidence),
        **_estimate_record(found),
        "threshold": margin,
        "items": len(shared),
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
        "metric_value": math.fsum(after) / len(shared),
        "baseline_value": math.fsum(before) / len(shared),
        # Items that only one of the two has a value for take no part.
        "unpaired": len(set(items) ^ set(baseline)),
        "p_against": found.p_below,
    }


def _gain_verdict(found: Estimate, margin: float, confidence: float) -> Verdict:
    error = (1 - confidence) / 2
    if found.low > margin and found.p_above <= error:
        return "pass"
    return "fail" if found.high <= margin and found.p_below <= error else "inconclusive"


def _no_items() -> dict[str, Any]:
    return {"verdict": "inconclusive", "value": None, "low": None, "high": None, "items": 0, "p_against": 1.0}


def _estimate_record(found: Estimate) -> dict[str, Any]:
    """The numbers for the record; one value alone has no interval."""
    bounded = math.isfinite(found.low) and math.isfinite(found.high)
    return {
        "value": found.value,
        "low": found.low if bounded else None,
        "high": found.high if bounded else None,
        "method": found.method,
        "p": min(1.0, 2 * min(found.p_above, found.p_below)),
    }


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """What a gate decides, and its conditions as they count after the correction."""

    verdict: Verdict
    conditions: Sequence[Mapping[str, Any]]


def combine_verdicts(conditions: Sequence[Mapping[str, Any]], correction: Correction) -> GateVerdict:
    """A gate passes when all its conditions are shown, and fails when one is shown not to hold."""
    counted = _apply_holm_correction(conditions) if correction == "holm" else list(conditions)
    verdicts = {condition["verdict"] for condition in counted}
    for worst in ("fail", "inconclusive"):
        if worst in verdicts:
            return GateVerdict(verdict=worst, conditions=counted)
    return GateVerdict(verdict="pass", conditions=counted)


def _apply_holm_correction(conditions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Failures that several looks at chance could have brought about are left open.

    With several conditions, one of them looks failed by chance more often than each alone does: Holm's
    steps keep that at what the confidence allows. A pass needs no correction, since it needs them all.
    """
    ratios = [one["p_against"] / ((1 - one["confidence"]) / 2) for one in conditions]
    order = sorted(range(len(conditions)), key=lambda index: ratios[index])
    counted = [dict(one) for one in conditions]
    open_from = False
    for place, index in enumerate(order):
        left = len(conditions) - place
        open_from = open_from or ratios[index] > 1 / left
        counted[index]["compared_with"] = (1 - conditions[index]["confidence"]) / 2 / left
        if open_from and counted[index]["verdict"] == "fail":
            counted[index] |= {"verdict": "inconclusive", "corrected": True}
    return counted

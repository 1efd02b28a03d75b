"""Three-valued verdicts: pass or fail if the data are significant, else inconclusive."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from posttrain.runtime.evaluation.statistics.bounded_means import estimate_bounded_mean
from posttrain.runtime.evaluation.statistics.confidence_intervals import (
    Estimate,
    are_binary,
    estimate_difference,
    estimate_mean,
)
from posttrain.spec.column_types import Interval

Verdict = Literal["pass", "fail", "inconclusive"]
Correction = Literal["holm", "none"]


def compare_to_threshold(
    items: Mapping[int, float],
    side: str,
    threshold: float,
    confidence: float,
    seed: int,
    bounds: Interval | None = None,
) -> dict[str, Any]:
    """Compare a metric with a threshold. `bounds` is the range of an item's value, if known."""
    values = list(items.values())
    if not values:
        return _no_items()
    if (finite := _range_of_means(values, bounds)) is not None:
        estimate = estimate_bounded_mean(values, finite, threshold, confidence)
    else:
        estimate = estimate_mean(
            values,
            rate=False,
            trials=len(values),
            threshold=threshold,
            confidence=confidence,
            seed=seed,
            bounds=bounds,
        )
    return {
        "verdict": _threshold_verdict(estimate, threshold, side, confidence),
        **_estimate_record(estimate),
        "threshold": threshold,
        "items": len(values),
        "p_against": estimate.p_above if side == "at_most" else estimate.p_below,
    }


def _threshold_verdict(estimate: Estimate, threshold: float, side: str, confidence: float) -> Verdict:
    """Require both the interval and the test, which differ slightly if the test is exact."""
    error = (1 - confidence) / 2
    over = estimate.low >= threshold and estimate.p_above <= error
    under = estimate.high <= threshold and estimate.p_below <= error
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
    """Compare a metric with another one, by the paired differences of the items that both have."""
    shared = sorted(set(items) & set(baseline))
    if not shared:
        return _no_items()
    after, before = [items[item] for item in shared], [baseline[item] for item in shared]
    gains = [one - other for one, other in zip(after, before, strict=True)]
    if (finite := _range_of_means([*after, *before], bounds)) is not None:
        reach = Interval(finite.low - finite.high, finite.high - finite.low)
        estimate = estimate_bounded_mean(gains, reach, margin, confidence)
    else:
        estimate = estimate_difference(
            after, before, margin=margin, confidence=confidence, seed=seed, bounds=bounds
        )
    return {
        "verdict": _gain_verdict(estimate, margin, confidence),
        **_estimate_record(estimate),
        "threshold": margin,
        "items": len(shared),
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
        "metric_value": math.fsum(after) / len(shared),
        "baseline_value": math.fsum(before) / len(shared),
        # Items with a value in only one of the two are not compared.
        "unpaired": len(set(items) ^ set(baseline)),
        "p_against": estimate.p_below,
    }


def _range_of_means(values: Sequence[float], bounds: Interval | None) -> Interval | None:
    """The range, if it is known and finite. None for values of 0 and 1 only, which have their own tests."""
    if bounds is None or are_binary(values, bounds) or not math.isfinite(bounds.high - bounds.low):
        return None
    return bounds


def _gain_verdict(estimate: Estimate, margin: float, confidence: float) -> Verdict:
    error = (1 - confidence) / 2
    if estimate.low >= margin and estimate.p_above <= error:
        return "pass"
    return "fail" if estimate.high <= margin and estimate.p_below <= error else "inconclusive"


def _no_items() -> dict[str, Any]:
    return {"verdict": "inconclusive", "value": None, "low": None, "high": None, "items": 0, "p_against": 1.0}


def _estimate_record(estimate: Estimate) -> dict[str, Any]:
    """An estimate as a record. An infinite interval becomes None."""
    bounded = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    return {
        "value": estimate.value,
        "low": estimate.low if bounded else None,
        "high": estimate.high if bounded else None,
        "method": estimate.method,
        "p": min(1.0, 2 * min(estimate.p_above, estimate.p_below)),
    }


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """The verdict of a gate, and its conditions after the correction."""

    verdict: Verdict
    conditions: Sequence[Mapping[str, Any]]


def combine_verdicts(conditions: Sequence[Mapping[str, Any]], correction: Correction) -> GateVerdict:
    """Combine the verdicts of conditions: a gate passes if all of them pass, and fails if one fails."""
    corrected = _apply_holm_correction(conditions) if correction == "holm" else list(conditions)
    verdicts = {condition["verdict"] for condition in corrected}
    for worst in ("fail", "inconclusive"):
        if worst in verdicts:
            return GateVerdict(verdict=worst, conditions=corrected)
    return GateVerdict(verdict="pass", conditions=corrected)


def _apply_holm_correction(conditions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Holm's correction: failures that are not significant over all conditions become inconclusive.

    With several conditions, the probability that one of them fails by chance is higher than for a single one.
    Holm's step-down procedure limits it to the level of the confidence. A pass needs no correction, because
    it requires all conditions.
    """
    ratios = [one["p_against"] / ((1 - one["confidence"]) / 2) for one in conditions]
    order = sorted(range(len(conditions)), key=lambda index: ratios[index])
    corrected = [dict(one) for one in conditions]
    insignificant = False
    for place, index in enumerate(order):
        remaining = len(conditions) - place
        insignificant = insignificant or ratios[index] > 1 / remaining
        corrected[index]["compared_with"] = (1 - conditions[index]["confidence"]) / 2 / remaining
        if insignificant and corrected[index]["verdict"] == "fail":
            corrected[index] |= {"verdict": "inconclusive", "corrected": True}
    return corrected

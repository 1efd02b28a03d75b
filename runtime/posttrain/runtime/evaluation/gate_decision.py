"""Decides a gate: each condition passes, fails, or is inconclusive."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.metric_items import MetricItems, read_metric_items
from posttrain.runtime.evaluation.statistics.verdicts import (
    combine_verdicts,
    compare_items,
    compare_to_threshold,
)
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.eval_params import GateCondition, GateStepParams


def run_gate(context: StepContext[GateStepParams]) -> None:
    """Run a gate step."""
    conditions = [_decide_condition(condition, context) for condition in context.params.conditions]
    decision = combine_verdicts(conditions, context.params.correction)
    result = {
        "verdict": decision.verdict,
        "correction": context.params.correction,
        "conditions": list(decision.conditions),
    }
    atomic_io.write_json(context.out / "verdict.json", result)
    context.facts.update(result)
    for condition in decision.conditions:
        if condition["verdict"] != "pass":
            message = f"{condition['text']}: {condition['verdict']}"
            context.events.emit("warning", message=message, advice=_format_estimate(condition))


def _format_estimate(condition: Mapping[str, Any]) -> str:
    """The estimate behind a verdict, as text."""
    if condition["low"] is None:
        return f"too few items for a confidence interval: {condition['items']}"
    return (
        f"the value is {condition['value']:.4g}, with an interval from {condition['low']:.4g} to"
        f" {condition['high']:.4g}, over {condition['items']} items"
    )


def _check_same_items(condition: GateCondition, scored: MetricItems, baseline: MetricItems) -> None:
    """Items are paired by number. Batches of other sizes hold other rows."""
    if scored.rows != baseline.rows:
        raise StepError(
            f"{condition.text}: the two evaluations divide the held-out rows differently, so their items are"
            " not the same rows",
            "set the same `micro_batch_size` in both training stages: the loss of this method compares the"
            " rows of a batch",
        )


def _decide_condition(condition: GateCondition, context: StepContext[GateStepParams]) -> dict[str, Any]:
    seed, confidence = context.params.seed, condition.confidence
    metric = condition.metric
    scored = read_metric_items(context.inputs[f"eval:{metric.eval}"], metric.name)
    if condition.baseline is not None:
        other = condition.baseline
        baseline = read_metric_items(context.inputs[f"eval:{other.eval}"], other.name)
        _check_same_items(condition, scored, baseline)
        margin, bounds = condition.margin, scored.bounds
        if bounds is not None and baseline.bounds is not None:
            bounds = bounds.join(baseline.bounds)
        sign = -1.0 if condition.lower_is_better else 1.0
        result = compare_items(scored.scaled(sign), baseline.scaled(sign), margin, confidence, seed, bounds)
        for name in ("metric_value", "baseline_value") if result["items"] else ():
            result[name] *= sign
    else:
        side, threshold = condition.kind, condition.threshold
        assert threshold is not None, "a condition without a baseline has a threshold"
        result = compare_to_threshold(scored.values, side, threshold, confidence, seed, bounds=scored.bounds)
    return {
        "text": condition.text,
        "kind": condition.kind,
        "margin": condition.margin,
        "confidence": confidence,
        **result,
    }

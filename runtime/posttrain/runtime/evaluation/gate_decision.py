"""Decides a gate: each condition passes, fails, or is inconclusive."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.duckdb_files import open_for_duckdb
from posttrain.runtime.evaluation.statistics.metric_estimates import value_bounds
from posttrain.runtime.evaluation.statistics.verdicts import (
    combine_verdicts,
    compare_items,
    compare_to_threshold,
)
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Interval
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


@dataclass(frozen=True, kw_only=True)
class _ItemValues:
    """A metric of an eval: its value for each item."""

    values: dict[int, float]
    # The range of an item's value, if known.
    bounds: Interval | None


def _decide_condition(condition: GateCondition, context: StepContext[GateStepParams]) -> dict[str, Any]:
    seed, confidence = context.params.seed, condition.confidence
    metric = condition.metric
    scored = _read_items(context.inputs[f"eval:{metric.eval}"], metric.name)
    if condition.baseline is not None:
        other = condition.baseline
        baseline = _read_items(context.inputs[f"eval:{other.eval}"], other.name)
        margin, bounds = condition.margin, scored.bounds
        if bounds is not None and baseline.bounds is not None:
            bounds = bounds.join(baseline.bounds)
        result = compare_items(scored.values, baseline.values, margin, confidence, seed, bounds)
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


def _read_items(folder: Path, name: str) -> _ItemValues:
    import duckdb

    metric = atomic_io.read_json(folder / "metrics.json")[name]
    column = '"node:' + metric["node"].replace('"', '""') + '"'
    model = metric.get("model")  # set if the eval has several models
    query = (
        f"SELECT item, avg({column}::DOUBLE) FROM read_parquet(?) WHERE {column} IS NOT NULL"
        " AND (? IS NULL OR model = ?) GROUP BY item ORDER BY item"
    )
    with open_for_duckdb([folder / "completions.parquet"]) as files:
        rows = duckdb.execute(query, [files, model, model]).fetchall()
    return _ItemValues(
        values={int(item): float(value) for item, value in rows},
        bounds=value_bounds(metric),
    )

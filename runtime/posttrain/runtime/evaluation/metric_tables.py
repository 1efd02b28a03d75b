"""Computes the tables of an eval from scored completions: metrics, breakdowns, and model comparisons."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from pydantic_core import to_jsonable_python

from posttrain.runtime.evaluation.statistics.metric_estimates import (
    CONFIDENCE,
    item_means,
    item_values,
    measure_metric,
    value_bounds,
)
from posttrain.runtime.evaluation.statistics.verdicts import compare_items
from posttrain.spec.step_params.eval_params import MetricDefinition

Row = dict[str, Any]
Metrics = Mapping[str, Mapping[str, Any]]
# Rates over all completions, by the name that a gate uses for them.
COMPLETION_RATES: Metrics = {
    name: {"kind": "rate", "node": f"is {name.replace('_', ' ')}"}
    for name in ("unscored", "truncated", "timed_out")
}


def metric_records(definitions: Mapping[str, MetricDefinition]) -> dict[str, dict[str, Any]]:
    """Definitions as records, to which the estimates are added."""
    return {name: to_jsonable_python(metric) for name, metric in definitions.items()}


def add_rates(flat: Sequence[Row], returns: str) -> None:
    """Add the columns of the completion rates to the rows."""
    for row in flat:
        row["node:is unscored"] = row[f"node:{returns}"] is None
        row["node:is truncated"] = row["finish"] == "length"
        row["node:is timed out"] = row["finish"] == "timeout"


def add_pass_at_k(flat: Sequence[Row], metrics: Metrics) -> dict[str, dict[str, Any]]:
    """Add the columns of pass@k to the rows. Returns the metrics with these columns as their nodes."""
    definitions = {name: dict(metric) for name, metric in metrics.items()}
    for metric in definitions.values():
        if metric["kind"] == "pass_at":
            passed = item_values(metric, flat)
            metric["node"] = f"pass@{metric.pop('k')} of {metric['node']}"
            for row in flat:
                row[f"node:{metric['node']}"] = passed.get(row["item"])
    return definitions


def measure_metrics(flat: Sequence[Row], metrics: Metrics, seed: int) -> dict[str, dict[str, Any]]:
    return {name: measure_metric(metric, flat, seed) for name, metric in metrics.items()}


def compute_breakdowns(
    flat: Sequence[Row], metrics: Metrics, by: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    """Every metric for each value of each column."""
    breakdowns: list[dict[str, Any]] = []
    for column in by:
        values: dict[Any, list[Row]] = {}
        for row in flat:
            values.setdefault(row[column], []).append(row)
        for value in sorted(values, key=lambda one: (one is None, str(type(one)), one)):
            for name, metric in metrics.items():
                estimate = measure_metric(metric, values[value], seed)
                breakdowns.append({"column": column, "group": value, "metric": name, **estimate})
    return breakdowns


_COMPARISON_FIELDS = ("value", "low", "high", "p", "method", "items", "better", "worse", "unpaired")


def compare_models(models: Mapping[str, Sequence[Row]], metrics: Metrics, seed: int) -> list[dict[str, Any]]:
    """Paired comparisons of every two models in every metric: the second minus the first."""
    comparisons: list[dict[str, Any]] = []
    for name, metric in metrics.items():
        means = {model: item_means(metric["node"], flat) for model, flat in models.items()}
        for first, second in combinations(models, 2):
            estimate = compare_items(means[second], means[first], 0.0, CONFIDENCE, seed, value_bounds(metric))
            estimate = {key: estimate.get(key) for key in _COMPARISON_FIELDS}
            comparisons.append({"metric": name, "model": second, "baseline": first, **estimate})
    return comparisons

"""Decides whether a sample is correct, by the reward node that a rate metric of the recipe counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, Sample, StepRecord
from posttrain.spec.canonical_json import canonical_json

OUTCOMES = ("right", "wrong", "unscored")


@dataclass(frozen=True)
class CorrectnessRule:
    """The deciding node, and the lowest value at which a sample counts as correct."""

    node: str
    threshold: float


def correctness_rules(run: RunRecord) -> dict[str, CorrectnessRule | None]:
    """The rule for the samples of each step; None where no rate metric applies to them.

    The rule comes from a rate metric of the step itself, or of an eval with the same reward.
    """
    rewards = {
        record.id: canonical_json(mapping_or_empty(record.step.params).get("reward")) for record in run.steps
    }
    counted: dict[str, list[Mapping[str, Any]]] = {}
    for record in run.steps:
        counted.setdefault(rewards[record.id], []).extend(_rate_metrics(mapping_or_empty(record.step.params)))
    return {record.id: _first_rule(record, counted[rewards[record.id]]) for record in run.steps}


def _first_rule(record: StepRecord, shared: Sequence[Mapping[str, Any]]) -> CorrectnessRule | None:
    params = mapping_or_empty(record.step.params)
    nodes = [mapping_or_empty(node) for node in mapping_or_empty(params.get("reward")).get("nodes") or ()]
    found = (_rule_of_metric(metric, nodes) for metric in (*_rate_metrics(params), *shared))
    return next((judge for judge in found if judge is not None), None)


def _rate_metrics(params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [mapping_or_empty(metric) for metric in mapping_or_empty(params.get("metrics")).values()]
    return [metric for metric in found if metric.get("kind") == "rate"]


def _rule_of_metric(metric: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> CorrectnessRule | None:
    """The node of the metric, or the score computed from it when that node has no name of its own."""
    counted = str(metric.get("node"))
    if "." not in counted:
        return CorrectnessRule(counted, 0.5)
    for node in nodes:
        operands = mapping_or_empty(node.get("operands"))
        then, other = (
            finite_or_none(mapping_or_empty(operands.get(side)).get("value")) for side in ("then", "else")
        )
        if mapping_or_empty(operands.get("when")).get("node") != counted or then is None or other is None:
            continue
        if then > other:
            return CorrectnessRule(str(node.get("id")), (then + other) / 2)
    return None


def sample_outcome(judge: CorrectnessRule | None, sample: Sample) -> str | None:
    """One of OUTCOMES, or None without a rule."""
    if judge is None or judge.node not in sample.values:
        return None
    value = sample.values[judge.node]
    if isinstance(value, bool):
        return "right" if value else "wrong"
    found = finite_or_none(value)
    if found is None:
        return "unscored"
    return "right" if found >= judge.threshold else "wrong"

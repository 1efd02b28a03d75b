"""Whether a sample was right: by the node that a rate metric of the recipe's evals counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.figures import finite, table_of
from posttrain.runtime.report.record import RunRecord, Sample, StepRecord
from posttrain.spec.plan import canonical

OUTCOMES = ("right", "wrong", "unscored")


@dataclass(frozen=True)
class Judge:
    """The node that decides, and the value from which on a sample counts as right."""

    node: str
    least: float


def judges_of(run: RunRecord) -> dict[str, Judge | None]:
    """What decides the samples of each step; None where the recipe counts nothing that they show.

    That is a rate metric of the step itself, or else one of an eval by the same reward.
    """
    rewards = {record.id: canonical(table_of(record.step.params).get("reward")) for record in run.steps}
    counted: dict[str, list[Mapping[str, Any]]] = {}
    for record in run.steps:
        counted.setdefault(rewards[record.id], []).extend(_rates(table_of(record.step.params)))
    return {record.id: _first(record, counted[rewards[record.id]]) for record in run.steps}


def _first(record: StepRecord, shared: Sequence[Mapping[str, Any]]) -> Judge | None:
    params = table_of(record.step.params)
    nodes = [table_of(node) for node in table_of(params.get("reward")).get("nodes") or ()]
    found = (_judge(metric, nodes) for metric in (*_rates(params), *shared))
    return next((judge for judge in found if judge is not None), None)


def _rates(params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [table_of(metric) for metric in table_of(params.get("metrics")).values()]
    return [metric for metric in found if metric.get("kind") == "rate"]


def _judge(metric: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> Judge | None:
    """The metric's node; where that has no name of its own, the score that is made from it."""
    counted = str(metric.get("node"))
    if "." not in counted:
        return Judge(counted, 0.5)
    for node in nodes:
        operands = table_of(node.get("operands"))
        then, other = (finite(table_of(operands.get(side)).get("value")) for side in ("then", "else"))
        if table_of(operands.get("when")).get("node") != counted or then is None or other is None:
            continue
        if then > other:
            return Judge(str(node.get("id")), (then + other) / 2)
    return None


def outcome(judge: Judge | None, sample: Sample) -> str | None:
    """One of OUTCOMES, or None when nothing decides."""
    if judge is None or judge.node not in sample.values:
        return None
    value = sample.values[judge.node]
    if isinstance(value, bool):
        return "right" if value else "wrong"
    found = finite(value)
    if found is None:
        return "unscored"
    return "right" if found >= judge.least else "wrong"

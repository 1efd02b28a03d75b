"""Reads the metrics of all evals from their facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.axis_scale import padded_range
from posttrain.runtime.report.interval_bars import finite_values
from posttrain.runtime.report.number_format import mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepRecord

# Kinds of metrics with values between 0 and 1.
_UNIT_INTERVAL_KINDS = ("rate", "pass_at")


@dataclass(frozen=True)
class EvalMetric:
    """A metric of an eval; `model` is set when the eval measures several models."""

    eval: str
    name: str
    data: Mapping[str, Any]
    facts: Mapping[str, Any]
    model: str = ""

    @property
    def values(self) -> tuple[float, ...] | None:
        """The value and the bounds of its interval."""
        return finite_values(*(self.data.get(name) for name in ("value", "low", "high")))

    @property
    def label(self) -> str:
        """The name of the eval, with the model when there are several."""
        return f"{self.eval} \u00b7 {self.model}" if self.model else self.eval

    def rate(self, name: str) -> object:
        """A rate over the model's completions, or over all completions of the eval."""
        return model_rates(self.facts, self.model).get(name, self.facts.get(name))


def model_rates(facts: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    return mapping_or_empty(mapping_or_empty(facts.get("rates")).get(model))


def run_metrics(run: RunRecord) -> list[EvalMetric]:
    return [metric for record in run.steps for metric in step_metrics(record)]


def step_metrics(record: StepRecord) -> list[EvalMetric]:
    found: list[EvalMetric] = []
    for key, value in mapping_or_empty(record.facts.get("metrics")).items():
        data = mapping_or_empty(value)
        model = str(data.get("model") or "")
        name = str(key).removeprefix(f"{model}.") if model else str(key)
        found.append(EvalMetric(record.id, name, data, record.facts, model))
    return found


def metric_axis(metric: EvalMetric, others: Sequence[EvalMetric]) -> tuple[float, float]:
    """The axis range that metrics of the same name share: 0 to 1 for rates."""
    alike = [other.values for other in others if other.name == metric.name and other.values]
    return axis_range(str(metric.data.get("kind")), alike)


def axis_range(kind: str, found: Sequence[Sequence[float]]) -> tuple[float, float]:
    if kind in _UNIT_INTERVAL_KINDS:
        return 0.0, 1.0
    return padded_range(value for values in found for value in values)

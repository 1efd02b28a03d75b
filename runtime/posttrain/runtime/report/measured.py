"""The metrics of all evals, as their facts tell them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.figures import table_of
from posttrain.runtime.report.intervals import numbers
from posttrain.runtime.report.record import RunRecord, StepRecord
from posttrain.runtime.report.scale import spread

# Kinds that lie between 0 and 1.
_SHARES = ("rate", "pass_at")


@dataclass(frozen=True)
class Metric:
    """A metric of an eval; where that measures several models, of one of them."""

    eval: str
    name: str
    found: Mapping[str, Any]
    facts: Mapping[str, Any]
    model: str = ""

    @property
    def values(self) -> tuple[float, ...] | None:
        """The value with the ends of its interval."""
        return numbers(*(self.found.get(name) for name in ("value", "low", "high")))

    @property
    def of(self) -> str:
        """What was measured."""
        return f"{self.eval} \u00b7 {self.model}" if self.model else self.eval

    def share(self, name: str) -> object:
        """A share of the model's completions, or else of all that the eval sampled."""
        return shares_of(self.facts, self.model).get(name, self.facts.get(name))


def shares_of(facts: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    return table_of(table_of(facts.get("rates")).get(model))


def metrics_of(run: RunRecord) -> list[Metric]:
    return [metric for record in run.steps for metric in metrics_in(record)]


def metrics_in(record: StepRecord) -> list[Metric]:
    found: list[Metric] = []
    for key, value in table_of(record.facts.get("metrics")).items():
        told = table_of(value)
        model = str(told.get("model") or "")
        name = str(key).removeprefix(f"{model}.") if model else str(key)
        found.append(Metric(record.id, name, told, record.facts, model))
    return found


def ends_of(metric: Metric, others: Sequence[Metric]) -> tuple[float, float]:
    """The axis that a metric shares with its namesakes: 0 to 1 for rates."""
    alike = [other.values for other in others if other.name == metric.name and other.values]
    return ends(str(metric.found.get("kind")), alike)


def ends(kind: str, found: Sequence[Sequence[float]]) -> tuple[float, float]:
    if kind in _SHARES:
        return 0.0, 1.0
    return spread(value for values in found for value in values)

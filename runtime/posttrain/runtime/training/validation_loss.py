"""Evaluates a training stage on held-out rows: the loss and the metrics of its method, without generation.

TRL computes them, with the rows tokenized as those of the training. The rows are weighted here: a loss per
token by its tokens, all else by rows. The result does not depend on the division into batches and processes.

evaluation/rows.parquet    one row for each evaluated row, or batch of rows if the loss compares rows
evaluation/metrics.json    each metric; means over rows with a confidence interval
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed.process_group import all_gather
from posttrain.runtime.evaluation.statistics.metric_estimates import measure_metric
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.trl_compat.row_metrics import EvaluatedBatch
from posttrain.spec.step_params.train_params import EVALUATED_ROWS, HeldOutMetric, TrainStepParams

_METRICS_FILE = "metrics.json"
_PREFIX = "eval_"  # of TRL's names
_PERPLEXITY = "eval_perplexity"
_MAX_EXPONENT = math.log(1e300)  # of a perplexity that is a finite number
_CHOSEN, _REJECTED = "eval_rewards/chosen", "eval_rewards/rejected"


@dataclass(frozen=True, kw_only=True)
class EvaluatedItem:
    """A held-out row, or a batch of rows: its metrics, and their weights in the means."""

    rows: int
    tokens: int | None = None
    values: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict[str, float])

    def weight(self, name: str) -> float:
        """Return the weight of a metric: that of its own, or the number of tokens or rows."""
        if name not in self.values:
            return 0
        return self.weights.get(name, self.rows if self.tokens is None else self.tokens)


@dataclass(frozen=True, kw_only=True)
class HeldOutEvaluation:
    """The evaluation of the weights of one step."""

    values: dict[str, float]
    items: Sequence[EvaluatedItem]
    metrics: Mapping[str, HeldOutMetric]
    seed: int

    def items_not_finite(self) -> dict[str, int]:
        """The metrics that have no value, with the number of items that are NaN or infinite."""
        counts = {
            name: sum(not math.isfinite(item.values[name]) for item in self.items if item.weight(name))
            for name in self.metrics
        }
        return {name: count for name, count in counts.items() if count}

    def save(self, folder: Path) -> None:
        """Write the metrics and the rows."""
        folder.mkdir(exist_ok=True)
        named = [name for name in self.metrics if any(name in item.values for item in self.items)]
        rows = [_saved_row(number, item, named) for number, item in enumerate(self.items)]
        means = [name for name in self.values if self.metrics[name].kind is not None]
        for name in means:
            for row, value in zip(rows, _contributions(name, self.items, self.values[name]), strict=True):
                row[f"node:{name}"] = value
        write_rows(folder / EVALUATED_ROWS, rows)
        records: dict[str, dict[str, Any]] = {}
        for name in self.values:
            records[name] = self._record(name, rows, records)
        atomic_io.write_json(folder / _METRICS_FILE, records, sync=False)

    def _record(
        self, name: str, rows: Sequence[Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        value, kind = self.values[name], self.metrics[name].kind
        if kind is not None:
            return {**measure_metric({"kind": kind, "node": name}, rows, self.seed), "value": value}
        ends = (before["eval_loss"][end] if name == _PERPLEXITY else None for end in ("low", "high"))
        low, high = (None if end is None or end > _MAX_EXPONENT else math.exp(end) for end in ends)
        record = {"kind": "mean", "node": name, "value": value, "low": low, "high": high}
        return {**record, "items": len(rows), "unscored": 0}


def evaluate_rows(trainer: Any, context: StepContext[TrainStepParams]) -> HeldOutEvaluation:
    """Evaluate the trainer's held-out rows with its current weights. Collective: all processes must call it.

    A metric without a value, or with one that is not finite, is left out.
    """
    options = context.params.evaluate
    assert options is not None, "the stage evaluates"
    assert options.metrics is not None, "the stage evaluates held-out rows"
    batches = [one for part in all_gather(trainer.evaluate_batches()) for one in part]
    items = [item for one in sorted(batches, key=lambda one: one.number) for item in _items(one)]
    values = {name: value for name in options.metrics if (value := mean_over_items(name, items)) is not None}
    return HeldOutEvaluation(values=values, items=items, metrics=options.metrics, seed=context.params.seed)


def event_name(metric: str) -> str:
    """Return the name of a metric in events and trackers, as in the trackers of transformers."""
    return f"eval/{metric.removeprefix(_PREFIX)}"


def saved_metrics(folder: Path) -> dict[str, Any]:
    """Return the metrics of a saved evaluation, as those of an eval."""
    return atomic_io.read_json(folder / _METRICS_FILE)


def _items(batch: EvaluatedBatch) -> Iterator[EvaluatedItem]:
    """Yield the rows of a batch, or the batch itself if its loss is not that of its rows."""
    for loss, tokens, correct in batch.row_tokens or ():
        accuracy = correct / tokens if tokens else 0.0
        values = {"eval_loss": loss, "eval_mean_token_accuracy": accuracy}
        yield EvaluatedItem(rows=1, tokens=tokens, values=values)
    if batch.row_tokens is not None:
        return
    values = {f"{_PREFIX}{name}": value for name, value in batch.metrics.items()}
    weights: dict[str, float] = {}
    if batch.desirable is not None:
        weights = {_CHOSEN: batch.desirable, _REJECTED: batch.rows - batch.desirable}
    yield EvaluatedItem(rows=batch.rows, values={"eval_loss": batch.loss, **values}, weights=weights)


def mean_over_items(name: str, items: Sequence[EvaluatedItem]) -> float | None:
    """Return a metric over all rows. None if no row has a value, or one is not finite."""
    if name == _PERPLEXITY:
        loss = mean_over_items("eval_loss", items)
        return None if loss is None or loss > _MAX_EXPONENT else math.exp(loss)
    if name == "eval_rewards/margins" and any(item.weights for item in items):
        chosen, rejected = mean_over_items(_CHOSEN, items), mean_over_items(_REJECTED, items)
        return None if chosen is None or rejected is None else chosen - rejected
    weighted = [(item.values[name], item.weight(name)) for item in items if item.weight(name)]
    total = math.fsum(weight for _, weight in weighted)
    if not total or not all(math.isfinite(value) for value, _ in weighted):
        return None
    return math.fsum(value * weight for value, weight in weighted) / total


def _contributions(name: str, items: Sequence[EvaluatedItem], mean: float) -> list[float]:
    """Return a value for each item, whose mean is the metric, and whose variance is that of a ratio.

    Items of equal weight contribute their own value.
    """
    average = math.fsum(item.weight(name) for item in items) / len(items)
    return [
        item.values[name]
        if item.weight(name) == average
        else mean + (item.values.get(name, 0.0) - mean) * item.weight(name) / average
        for item in items
    ]


def _saved_row(number: int, item: EvaluatedItem, metrics: Sequence[str]) -> dict[str, Any]:
    size = {} if item.tokens is None else {"tokens": item.tokens}
    return {"item": number, "rows": item.rows, **size, **{name: item.values.get(name) for name in metrics}}

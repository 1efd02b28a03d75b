"""The metrics of two runs in `recipe diff`: values, differences and paired intervals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from posttrain.cli.run_argument import FoundRun
from posttrain.cli.text_tables import table_lines
from posttrain.runtime.comparison.compared_run import read_compared_runs
from posttrain.runtime.comparison.stage_comparison import (
    MetricComparison,
    StageComparison,
    compare_run_stages,
)
from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_decimals,
    format_signed,
    format_signed_interval,
    plural,
)

_HEADER = ("metric", "A", "B", "B - A", "paired interval", "items", "better", "worse")
_PAIRED_FIELDS = ("value", "low", "high", "p", "method", "items", "better", "worse")


def compare_metrics(base: FoundRun, other: FoundRun) -> tuple[StageComparison, ...]:
    """The metrics of the stages that two runs measured. A run has no difference from itself."""
    return () if base[1] == other[1] else tuple(compare_run_stages(*read_compared_runs([base, other])))


def metric_blocks(stages: Sequence[StageComparison]) -> Iterator[list[str]]:
    """The lines of a table, and of the remarks on items that are not paired."""
    rows = [_row(stage, metric) for stage in stages for metric in stage.metrics]
    yield [click.style("metrics", bold=True), *table_lines(_HEADER, rows)]
    remarks = [line for stage in stages for line in _remarks(stage)]
    if remarks:
        yield remarks


def _row(stage: StageComparison, metric: MetricComparison) -> tuple[str, ...]:
    sides = [format_decimals(side["value"]) if side else "" for side in (metric.base, metric.other)]
    difference = "" if metric.difference is None else format_signed(metric.difference)
    name = f"{stage.stage}.{metric.name}"
    if metric.paired is None:
        return (name, *sides, difference, "not paired" if difference else "", "", "", "")
    paired = metric.paired
    counts = (str(paired[field]) for field in ("items", "better", "worse"))
    return (name, *sides, difference, format_signed_interval(paired["low"], paired["high"]), *counts)


def _remarks(stage: StageComparison) -> Iterator[str]:
    if stage.reasons:
        yield f"{stage.stage} is not paired: {'; '.join(stage.reasons)}"
        return
    for metric in stage.metrics:
        if metric.reason:
            yield f"{stage.stage}.{metric.name} is not paired: {metric.reason}"
        elif metric.unpaired_count:
            first = metric.unpaired[0]
            yield (
                f"{stage.stage}.{metric.name}: {plural(metric.unpaired_count, 'item')} left out, such as"
                f" {first.name} ({first.mark}: {first.cause})"
            )


def metrics_data(stages: Sequence[StageComparison]) -> list[dict[str, Any]]:
    """The metrics as JSON. `paired` is null where the items are not paired, with the reason."""
    return [
        {
            "stage": stage.stage,
            "metric": metric.name,
            "old": _side(metric.base),
            "new": _side(metric.other),
            "difference": metric.difference,
            "paired": metric.paired and {name: metric.paired.get(name) for name in _PAIRED_FIELDS},
            "unpaired_count": metric.unpaired_count,
            "reason": metric.reason,
        }
        for stage in stages
        for metric in stage.metrics
    ]


def _side(metric: Mapping[str, Any] | None) -> dict[str, float | None] | None:
    return (
        None if metric is None else {end: finite_or_none(metric.get(end)) for end in ("value", "low", "high")}
    )

"""Renders the metrics of an eval per value of a column, the largest groups first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.runtime.evaluation.metric_tables import COMPLETION_RATES
from posttrain.runtime.report.interval_bars import finite_values, interval_bar
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, join_markup, scroll_frame, tag
from posttrain.runtime.report.metric_rows import axis_range
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_count,
    format_decimals,
    format_interval,
    format_percent,
    format_value,
    plural,
)
from posttrain.runtime.report.run_record import StepRecord
from posttrain.spec.canonical_json import canonical_json

# A table with more rows than this starts collapsed.
_FOLD_ROWS = 12
_MAX_LABEL = 60
_RATE_LABELS = {"unscored": "Unscored", "truncated": "Truncated", "timed_out": "Timed out"}
MetricData = Mapping[str, Any]


@dataclass
class _Group:
    """The metrics for one value of a column, by model."""

    name: str
    models: dict[str, dict[str, MetricData]] = field(default_factory=dict[str, dict[str, MetricData]])

    @property
    def items(self) -> float:
        """The largest item count of any model: a metric counts only the items that have a value."""
        return max((max_items(metrics) for metrics in self.models.values()), default=0.0)


def max_items(metrics: Mapping[str, MetricData]) -> float:
    return max((finite_or_none(one.get("items")) or 0.0 for one in metrics.values()), default=0.0)


def breakdown_section(record: StepRecord, most: int) -> Markup | None:
    """A table for each column with at most `most` rows; the smallest groups are left out."""
    columns: dict[str, dict[str, _Group]] = {}
    for one in record.breakdowns:
        if "group" not in one:  # from an earlier version, which did not record the value
            continue
        groups = columns.setdefault(str(one.get("column")), {})
        group = groups.setdefault(canonical_json(one["group"]), _Group(_value_label(one["group"])))
        metrics = group.models.setdefault(str(one.get("model") or ""), {})
        metrics[str(one.get("metric"))] = one
    if not columns:
        return None
    parts = [_column(name, list(groups.values()), most) for name, groups in columns.items()]
    return tag("section", tag("h3", f"{record.id}: breakdown"), parts, class_="card broken")


def _value_label(value: Any) -> str:
    words = "none" if value is None else format_value(value)
    return words if len(words) <= _MAX_LABEL else words[: _MAX_LABEL - 1] + "\u2026"


def _column(column: str, groups: list[_Group], most: int) -> Markup:
    groups.sort(key=lambda group: -group.items)
    several = len({model for group in groups for model in group.models}) > 1
    rows = sum(len(group.models) for group in groups)
    title = tag(
        "summary", tag("b", f"by {column}"), tag("span", f" {plural(len(groups), 'value')}", class_="soft")
    )
    shown = groups[: max(1, most * len(groups) // max(most, rows))]
    left = len(groups) - len(shown)
    more = f"{plural(left, 'smaller group')} not shown: see breakdowns.json." if left else None
    body = [_table(column, shown, several), tag("p", more, class_="soft") if more else None]
    return tag("details", title, body, open=rows <= _FOLD_ROWS, class_="column")


@dataclass(frozen=True, kw_only=True)
class _TableColumns:
    """The columns of a table: the metrics, the rates, and the axis of the first metric's chart."""

    many_models: bool
    metrics: Sequence[str]
    rates: Sequence[str]
    axes: Mapping[str, tuple[float, float]]


def _table_columns(every: Sequence[Mapping[str, MetricData]], several: bool) -> _TableColumns:
    names = dict.fromkeys(
        name for metrics in every for name, one in metrics.items() if not _is_rate(name, one)
    )
    rates = [
        rate
        for rate in _RATE_LABELS
        if any(rate in metrics and _is_rate(rate, metrics[rate]) for metrics in every)
    ]
    late = any(
        finite_or_none(metrics["timed_out"].get("value")) for metrics in every if "timed_out" in metrics
    )
    return _TableColumns(
        many_models=several,
        metrics=list(names),
        rates=[rate for rate in rates if rate != "timed_out" or late],
        axes={
            name: _value_range([metrics[name] for metrics in every if name in metrics])
            for name in list(names)[:1]
        },
    )


def _table(column: str, groups: Sequence[_Group], several: bool) -> Markup:
    every = [metrics for group in groups for metrics in group.models.values()]
    shape = _table_columns(every, several)
    bodies = [tag("tbody", _rows(group, shape)) for group in groups]
    table = tag("table", tag("thead", tag("tr", _heads(column, shape))), bodies, class_="side")
    return scroll_frame(f"By {column}", table, tall=len(every) > SCROLL_ROWS)


def _heads(column: str, shape: _TableColumns) -> list[Markup]:
    heads = [tag("th", name, scope="col") for name in (column, *(["Model"] if shape.many_models else []))]
    heads.append(tag("th", "Items", scope="col", class_="number"))
    for name in shape.metrics:
        heads.append(tag("th", name, scope="col", class_="number"))
        if name in shape.axes:
            drawn = tag("span", "Interval chart", class_="unseen")
            heads.append(tag("th", drawn, scope="col", class_="drawn"))
    return heads + [tag("th", _RATE_LABELS[rate], scope="col", class_="number") for rate in shape.rates]


def _is_rate(name: str, found: MetricData) -> bool:
    return name in COMPLETION_RATES and found.get("node") == COMPLETION_RATES[name]["node"]


def _value_range(found: Sequence[MetricData]) -> tuple[float, float]:
    return axis_range(
        str(found[0].get("kind")), [values for one in found if (values := _interval_values(one))]
    )


def _interval_values(found: MetricData) -> tuple[float, ...] | None:
    return finite_values(*(found.get(name) for name in ("value", "low", "high")))


def _rows(group: _Group, shape: _TableColumns) -> list[Markup]:
    """One row per model."""
    span = len(group.models) if len(group.models) > 1 else None
    rows: list[Markup] = []
    for number, (model, metrics) in enumerate(group.models.items()):
        name = tag("th", group.name, scope="rowgroup", rowspan=span) if not number else None
        of = tag("td", model) if shape.many_models else None
        items = tag("td", format_count(max_items(metrics)), class_="number")
        cells = [_metric_cells(metrics.get(one, {}), shape.axes.get(one)) for one in shape.metrics]
        rates = [
            tag("td", format_percent(metrics.get(rate, {}).get("value")), class_="number")
            for rate in shape.rates
        ]
        rows.append(tag("tr", name, of, items, cells, rates))
    return rows


def _metric_cells(found: MetricData, axis: tuple[float, float] | None) -> Markup:
    values = _interval_values(found)
    interval = format_interval(*values[1:]) if values else "no interval" if found.get("items") else DASH
    value = tag("b", format_decimals(found.get("value")))
    cell = tag("td", value, tag("span", interval, class_="soft"), class_="number value")
    if axis is None:
        return cell
    drawing = interval_bar(values[0], values[1], values[2], axis) if values else None
    return join_markup([cell, tag("td", drawing, class_="drawn")])

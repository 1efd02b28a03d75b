"""Renders an eval of several models: a table of metrics, forest plots, and pairwise comparisons."""

from collections.abc import Sequence

from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.report.forest_plot import draw_forest_plot
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.metric_rows import EvalMetric, model_rates, step_metrics
from posttrain.runtime.report.model_comparisons import comparison_tables
from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_count,
    format_decimals,
    format_interval,
    format_percent,
    plural,
)
from posttrain.runtime.report.run_record import StepRecord

_RATE_LABELS = {
    "unscored": "Unscored",
    "truncated": "Truncated",
    "timed_out": "Timed out",
    "failed": "Failed",
}
_ALWAYS_SHOWN = ("unscored", "truncated")


def model_metrics_section(record: StepRecord, most: int) -> Markup | None:
    """At most `most` comparisons; None for an eval of one model."""
    found = [metric for metric in step_metrics(record) if metric.model]
    if not found:
        return None
    models = list(dict.fromkeys(metric.model for metric in found))
    names = list(dict.fromkeys(metric.name for metric in found))
    drawings = [draw_forest_plot([one for one in found if one.name == name]) for name in names]
    head = [tag("h3", record.id), tag("span", plural(len(models), "model"), class_="soft")]
    return tag(
        "section",
        tag("div", head, class_="head"),
        _table(record, models, names, found),
        tag("div", drawings, class_="charts"),
        comparison_tables(record, names, most),
        class_="card models",
    )


def _table(
    record: StepRecord, models: Sequence[str], names: Sequence[str], found: list[EvalMetric]
) -> Markup:
    rates = [name for name in _RATE_LABELS if name in _ALWAYS_SHOWN or _has_rate(record, models, name)]
    heads = ["Model", *names, "Items", *(_RATE_LABELS[name] for name in rates)]
    rows = [_row(record, model, names, rates, [m for m in found if m.model == model]) for model in models]
    head = [tag("th", words, scope="col", class_="number" if n else None) for n, words in enumerate(heads)]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="side")
    return scroll_frame(f"The models of {record.id}", table, tall=len(rows) > SCROLL_ROWS)


def _has_rate(record: StepRecord, models: Sequence[str], rate: str) -> bool:
    return any(finite_or_none(model_rates(record.facts, model).get(rate)) for model in models)


def _row(
    record: StepRecord, model: str, names: Sequence[str], rates: Sequence[str], found: list[EvalMetric]
) -> Markup:
    by_name = {metric.name: metric for metric in found}
    shares = model_rates(record.facts, model)
    return tag(
        "tr",
        tag("th", model, scope="row"),
        [value_cell(by_name.get(name)) for name in names],
        tag("td", _items_text(found), class_="number"),
        [tag("td", format_percent(shares.get(rate)), class_="number") for rate in rates],
    )


def value_cell(metric: EvalMetric | None) -> Markup:
    """A value with its interval below it."""
    if metric is None:
        return tag("td", format_interval(None, None), class_="number")
    values = metric.values
    interval = f"{format_interval(*values[1:])}" if values else "no interval"
    shown = tag("span", interval, class_="soft", title=f"{CONFIDENCE:.0%} interval")
    return tag("td", tag("b", format_decimals(metric.data.get("value"))), shown, class_="number value")


def _items_text(found: Sequence[EvalMetric]) -> str:
    """The item count of the metrics; the smallest and the largest where they differ."""
    counts = sorted({n for one in found if (n := finite_or_none(one.data.get("items"))) is not None})
    return (
        " \u2013 ".join(dict.fromkeys(format_count(n) for n in (counts[0], counts[-1])))
        if counts
        else format_count(None)
    )

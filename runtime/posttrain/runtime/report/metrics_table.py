"""Renders the metrics of all evals: one table, plus details for several models and for breakdowns."""

from collections.abc import Iterator

from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.report.breakdown_tables import breakdown_section
from posttrain.runtime.report.interval_bars import interval_bar
from posttrain.runtime.report.leg_table import leg_table
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, join_markup, scroll_frame, tag
from posttrain.runtime.report.metric_rows import EvalMetric, metric_axis, run_metrics, step_metrics
from posttrain.runtime.report.model_metrics import model_metrics_section
from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_count,
    format_decimals,
    format_interval,
    format_percent,
)
from posttrain.runtime.report.run_record import RunRecord

# Limits for evals with several models or breakdowns: their number, and the rows of each of their tables.
_MAX_EVALS = 60
_MIN_ROWS, _MAX_ROWS, _TOTAL_ROWS = 20, 300, 6000


def metrics_section(run: RunRecord) -> Markup | None:
    found = run_metrics(run)
    alone = [metric for metric in found if not metric.model]
    parts = [*filter(None, (leg_table(run),)), *([_table(alone)] if alone else [])]
    evals = [
        record for record in run.steps if record.breakdowns or any(m.model for m in step_metrics(record))
    ]
    rows = max(_MIN_ROWS, min(_MAX_ROWS, _TOTAL_ROWS // max(1, len(evals))))
    for record in evals[:_MAX_EVALS]:
        parts += filter(None, (model_metrics_section(record, rows), breakdown_section(record, rows)))
    if len(evals) > _MAX_EVALS:
        words = f"Details of {len(evals) - _MAX_EVALS:,} more evals are not shown: see their metrics.json."
        parts.append(tag("p", words, class_="soft"))
    return join_markup(parts) if parts else None


def _table(found: list[EvalMetric]) -> Markup:
    late = any(finite_or_none(metric.rate("timed_out")) for metric in found)
    heads = ["Eval", "Metric", "Value", f"{CONFIDENCE:.0%} interval", "", "Items", "Unscored", "Truncated"]
    head = tag("tr", [_head(words) for words in (*heads, *(["Timed out"] if late else []))])
    rows = [tag("tr", list(_cells(metric, found, late))) for metric in found]
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="metrics")
    note = "Truncated: completions that reached the length limit. Unscored items count toward no metric."
    return tag(
        "div",
        scroll_frame("Metrics", table, tall=len(rows) > SCROLL_ROWS),
        tag("p", note, class_="soft"),
        class_="card",
    )


def _head(words: str) -> Markup:
    if not words:
        return tag("th", tag("span", "Interval chart", class_="unseen"), scope="col", class_="drawn")
    return tag("th", words, scope="col", class_="number" if words not in ("Eval", "Metric") else None)


def _cells(metric: EvalMetric, others: list[EvalMetric], late: bool) -> Iterator[Markup]:
    values = metric.values
    yield tag("th", metric.eval, scope="row")
    node = metric.data.get("node")
    yield tag("td", metric.name, tag("span", f" of {node}", class_="soft") if node else None)
    yield tag("td", tag("b", format_decimals(metric.data.get("value"))), class_="number")
    yield tag("td", format_interval(*values[1:]) if values else format_interval(None, None), class_="number")
    yield tag(
        "td",
        interval_bar(values[0], values[1], values[2], metric_axis(metric, others)) if values else None,
        class_="drawn",
    )
    yield tag("td", format_count(metric.data.get("items")), class_="number")
    yield tag("td", format_count(metric.data.get("unscored")), class_="number")
    yield tag("td", format_percent(metric.rate("truncated")), class_="number")
    if late:
        yield tag("td", format_percent(metric.rate("timed_out")), class_="number")

"""The metrics of all evals with their intervals: in one table, and apart where an eval has more to tell."""

from collections.abc import Iterator

from posttrain.runtime.figures.measures import CONFIDENCE
from posttrain.runtime.report.breakdowns import breakdowns_of
from posttrain.runtime.report.figures import between, count, decimals, finite, share
from posttrain.runtime.report.intervals import small
from posttrain.runtime.report.markup import MANY, Markup, joined, scrolling, tag
from posttrain.runtime.report.measured import Metric, ends_of, metrics_in, metrics_of
from posttrain.runtime.report.models import models_of
from posttrain.runtime.report.record import RunRecord

# Evals of several models, and with breakdowns, that are shown in full; and the rows of each table of theirs.
_MOST = 60
_FEWEST_ROWS, _MOST_ROWS, _ALL_ROWS = 20, 300, 6000


def metrics_section(run: RunRecord) -> Markup | None:
    found = metrics_of(run)
    alone = [metric for metric in found if not metric.model]
    parts = [_table(alone)] if alone else []
    evals = [record for record in run.steps if record.breakdowns or any(m.model for m in metrics_in(record))]
    rows = max(_FEWEST_ROWS, min(_MOST_ROWS, _ALL_ROWS // max(1, len(evals))))
    for record in evals[:_MOST]:
        parts += filter(None, (models_of(record, rows), breakdowns_of(record, rows)))
    if len(evals) > _MOST:
        words = f"{len(evals) - _MOST:,} more evals are not broken down here: see their metrics.json."
        parts.append(tag("p", words, class_="soft"))
    return joined(parts) if parts else None


def _table(found: list[Metric]) -> Markup:
    late = any(finite(metric.share("timed_out")) for metric in found)
    heads = ["Eval", "Metric", "Value", f"{CONFIDENCE:.0%} interval", "", "Items", "Unscored", "Cut short"]
    head = tag("tr", [_head(words) for words in (*heads, *(["Timed out"] if late else []))])
    rows = [tag("tr", list(_cells(metric, found, late))) for metric in found]
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="metrics")
    note = "Cut short: completions that reached their longest length. Unscored items count for no metric."
    return tag(
        "div",
        scrolling("Metrics", table, tall=len(rows) > MANY),
        tag("p", note, class_="soft"),
        class_="card",
    )


def _head(words: str) -> Markup:
    if not words:
        return tag("th", tag("span", "The interval drawn", class_="unseen"), scope="col", class_="drawn")
    return tag("th", words, scope="col", class_="number" if words not in ("Eval", "Metric") else None)


def _cells(metric: Metric, others: list[Metric], late: bool) -> Iterator[Markup]:
    values = metric.values
    yield tag("th", metric.eval, scope="row")
    node = metric.found.get("node")
    yield tag("td", metric.name, tag("span", f" of {node}", class_="soft") if node else None)
    yield tag("td", tag("b", decimals(metric.found.get("value"))), class_="number")
    yield tag("td", between(*values[1:]) if values else between(None, None), class_="number")
    yield tag(
        "td",
        small(values[0], values[1], values[2], ends_of(metric, others)) if values else None,
        class_="drawn",
    )
    yield tag("td", count(metric.found.get("items")), class_="number")
    yield tag("td", count(metric.found.get("unscored")), class_="number")
    yield tag("td", share(metric.share("cut")), class_="number")
    if late:
        yield tag("td", share(metric.share("timed_out")), class_="number")

"""The metrics of all evals, each with its interval."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.measures import CONFIDENCE
from posttrain.runtime.report.figures import NOTHING, decimals, finite, table_of
from posttrain.runtime.report.intervals import numbers, small
from posttrain.runtime.report.markup import MANY, Markup, scrolling, tag
from posttrain.runtime.report.record import RunRecord
from posttrain.runtime.report.scale import spread


@dataclass(frozen=True)
class Metric:
    """A metric of an eval, as its facts tell it."""

    eval: str
    name: str
    found: Mapping[str, Any]
    facts: Mapping[str, Any]

    @property
    def values(self) -> tuple[float, ...] | None:
        """The value with the ends of its interval."""
        return numbers(*(self.found.get(name) for name in ("value", "low", "high")))


def metrics_of(run: RunRecord) -> list[Metric]:
    return [
        Metric(record.id, str(name), table_of(found), record.facts)
        for record in run.steps
        for name, found in table_of(record.facts.get("metrics")).items()
    ]


def ends_of(metric: Metric, others: list[Metric]) -> tuple[float, float]:
    """The axis that a metric shares with its namesakes: 0 to 1 for rates."""
    if metric.found.get("kind") == "rate":
        return 0.0, 1.0
    alike = [other.values for other in others if other.name == metric.name and other.values]
    return spread(value for values in alike for value in values)


def metrics_section(run: RunRecord) -> Markup | None:
    found = metrics_of(run)
    if not found:
        return None
    heads = ("Eval", "Metric", "Value", f"{CONFIDENCE:.0%} interval", "", "Items", "Unscored", "Cut short")
    head = tag("tr", [_head(words) for words in heads])
    rows = [tag("tr", list(_cells(metric, found))) for metric in found]
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


def _cells(metric: Metric, others: list[Metric]) -> Iterator[Markup]:
    values = metric.values
    yield tag("th", metric.eval, scope="row")
    node = metric.found.get("node")
    yield tag("td", metric.name, tag("span", f" of {node}", class_="soft") if node else None)
    yield tag("td", tag("b", decimals(metric.found.get("value"))), class_="number")
    yield tag(
        "td", f"{decimals(values[1])} \u2013 {decimals(values[2])}" if values else NOTHING, class_="number"
    )
    yield tag(
        "td",
        small(values[0], values[1], values[2], ends_of(metric, others)) if values else None,
        class_="drawn",
    )
    yield tag("td", _count(metric.found.get("items")), class_="number")
    yield tag("td", _count(metric.found.get("unscored")), class_="number")
    yield tag("td", _share(metric.facts.get("cut")), class_="number")


def _count(value: Any) -> str:
    found = finite(value)
    return NOTHING if found is None else f"{found:,.0f}"


def _share(value: Any) -> str:
    found = finite(value)
    return NOTHING if found is None else f"{found:.1%}"

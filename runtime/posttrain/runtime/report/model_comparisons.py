"""Renders the paired comparison of every two models of an eval: the gain and its interval."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.report.axis_scale import padded_range
from posttrain.runtime.report.interval_bars import finite_values, interval_bar
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_count,
    format_signed,
    format_signed_interval,
    mapping_or_empty,
    plural,
)
from posttrain.runtime.report.run_record import StepRecord

ComparisonData = Mapping[str, Any]


def comparison_tables(record: StepRecord, names: Sequence[str], most: int) -> Markup | None:
    """Tables for the metrics of the eval, and collapsed ones for the completion rates."""
    comparisons = record.facts.get("comparisons")
    found = [mapping_or_empty(one) for one in comparisons] if isinstance(comparisons, list) else []
    own = [one for one in found if one.get("metric") in names]
    rates = [one for one in found if one.get("metric") not in names and _has_changes(one)]
    parts: list[Markup] = []
    if own:
        parts += [tag("h4", "Compared item by item"), _table(own, ("Better", "Worse"), most)]
    if rates:
        title = tag(
            "summary", f"{plural(len(rates), 'difference')} in unscored, truncated or timed-out items"
        )
        parts.append(tag("details", title, _table(rates, ("More", "Less"), most), class_="more"))
    return tag("div", parts, class_="compared") if parts else None


def _has_changes(found: ComparisonData) -> bool:
    return any(finite_or_none(found.get(side)) for side in ("better", "worse"))


def _table(found: Sequence[ComparisonData], sides: tuple[str, str], most: int) -> Markup:
    shown = found[:most]
    tested = any(finite_or_none(one.get("p")) is not None for one in shown)
    interval = f"{CONFIDENCE:.0%} interval"
    heads = ["Metric", "Compared", "Gain", interval, "", *sides, "The same", *(["p"] if tested else [])]
    rows = [tag("tr", _cells(one, _symmetric_range(one, shown), tested)) for one in shown]
    table = tag("table", tag("thead", tag("tr", [_head(h) for h in heads])), tag("tbody", rows))
    framed = scroll_frame("Comparisons", table, tall=len(rows) > SCROLL_ROWS)
    if len(found) == len(shown):
        return framed
    return Markup(framed + tag("p", f"{len(found) - most:,} more are in comparisons.json.", class_="soft"))


def _head(words: str) -> Markup:
    if not words:
        return tag("th", tag("span", "Interval chart", class_="unseen"), scope="col", class_="drawn")
    return tag("th", words, scope="col", class_="number" if words not in ("Metric", "Compared") else None)


def _symmetric_range(one: ComparisonData, others: Sequence[ComparisonData]) -> tuple[float, float]:
    """An axis range centered on zero, shared by the comparisons of one metric."""
    alike = [_interval_values(other) for other in others if other.get("metric") == one.get("metric")]
    furthest = max((abs(value) for values in alike if values for value in values), default=1.0)
    return padded_range((-furthest, furthest))


def _interval_values(found: ComparisonData) -> tuple[float, ...] | None:
    return finite_values(*(found.get(name) for name in ("value", "low", "high")))


def _cells(found: ComparisonData, ends: tuple[float, float], tested: bool) -> list[Markup]:
    values = _interval_values(found)
    pair = (str(found.get("model") or DASH), str(found.get("baseline") or DASH))
    drawn = interval_bar(values[0], values[1], values[2], ends, zero=True) if values else None
    cells = [
        tag("th", str(found.get("metric") or DASH), scope="row"),
        tag("td", tag("b", pair[0]), tag("span", " against ", class_="soft"), pair[1]),
        tag("td", tag("b", format_signed(found.get("value"))), class_="number"),
        tag("td", format_signed_interval(*values[1:]) if values else DASH, class_="number"),
        tag("td", drawn, class_=f"drawn s-{_significance_state(values)}" if values else "drawn"),
        *(tag("td", text, class_="number") for text in _counts(found)),
    ]
    return [*cells, tag("td", _p_value(found), class_="number")] if tested else cells


def _significance_state(values: Sequence[float]) -> str:
    """A distinct color for an interval that excludes zero."""
    return "cached" if values[1] > 0 or values[2] < 0 else "waiting"


def _counts(found: ComparisonData) -> list[str]:
    counted = finite_values(found.get("better"), found.get("worse"), found.get("items"))
    if counted is None:
        return [format_count(found.get(name)) for name in ("better", "worse", "same")]
    better, worse, items = counted
    return [format_count(n) for n in (better, worse, max(0.0, items - better - worse))]


def _p_value(found: ComparisonData) -> str:
    p = finite_or_none(found.get("p"))
    return DASH if p is None else f"{p:.2g}"

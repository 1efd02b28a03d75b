"""An eval's metrics apart for each value of a column: the values with the most items first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.runtime.evals.tables import RATES
from posttrain.runtime.report.figures import (
    NOTHING,
    between,
    count,
    decimals,
    finite,
    plural,
    share,
    value_text,
)
from posttrain.runtime.report.intervals import numbers, small
from posttrain.runtime.report.markup import MANY, Markup, joined, scrolling, tag
from posttrain.runtime.report.measured import ends
from posttrain.runtime.report.record import StepRecord
from posttrain.spec.plan import canonical

# A table with more rows than this is folded.
_LONG = 12
_LONGEST = 60
_RATES = {"unscored": "Unscored", "truncated": "Cut short", "timed_out": "Timed out"}
Found = Mapping[str, Any]


@dataclass
class _Group:
    """What is told of one value of a column, by model and metric."""

    name: str
    models: dict[str, dict[str, Found]] = field(default_factory=dict[str, dict[str, Found]])

    @property
    def items(self) -> float:
        """Its items, of the model that has the most: a metric has only those with a value."""
        return max((items_of(metrics) for metrics in self.models.values()), default=0.0)


def items_of(metrics: Mapping[str, Found]) -> float:
    return max((finite(one.get("items")) or 0.0 for one in metrics.values()), default=0.0)


def breakdowns_of(record: StepRecord, most: int) -> Markup | None:
    """A table for each column, with so many rows at most: the smallest groups are left out."""
    columns: dict[str, dict[str, _Group]] = {}
    for one in record.breakdowns:
        if "group" not in one:  # of an earlier version, which did not say what was measured
            continue
        groups = columns.setdefault(str(one.get("column")), {})
        group = groups.setdefault(canonical(one["group"]), _Group(_shown(one["group"])))
        metrics = group.models.setdefault(str(one.get("model") or ""), {})
        metrics[str(one.get("metric"))] = one
    if not columns:
        return None
    parts = [_column(name, list(groups.values()), most) for name, groups in columns.items()]
    return tag("section", tag("h3", f"{record.id}, broken down"), parts, class_="card broken")


def _shown(value: Any) -> str:
    words = "none" if value is None else value_text(value)
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "\u2026"


def _column(column: str, groups: list[_Group], most: int) -> Markup:
    groups.sort(key=lambda group: -group.items)
    several = len({model for group in groups for model in group.models}) > 1
    rows = sum(len(group.models) for group in groups)
    title = tag(
        "summary", tag("b", f"by {column}"), tag("span", f" {plural(len(groups), 'value')}", class_="soft")
    )
    shown = groups[: max(1, most * len(groups) // max(most, rows))]
    left = len(groups) - len(shown)
    more = f"{plural(left, 'smaller group')} left out: see breakdowns.json." if left else None
    body = [_table(column, shown, several), tag("p", more, class_="soft") if more else None]
    return tag("details", title, body, open=rows <= _LONG, class_="column")


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """The columns of a table: the metrics, the rates, and the axis on which the first metric is drawn."""

    several: bool
    names: Sequence[str]
    rates: Sequence[str]
    axes: Mapping[str, tuple[float, float]]


def _shape(every: Sequence[Mapping[str, Found]], several: bool) -> _Shape:
    names = dict.fromkeys(name for told in every for name, one in told.items() if not _rate(name, one))
    rates = [rate for rate in _RATES if any(rate in told and _rate(rate, told[rate]) for told in every)]
    late = any(finite(told["timed_out"].get("value")) for told in every if "timed_out" in told)
    return _Shape(
        several=several,
        names=list(names),
        rates=[rate for rate in rates if rate != "timed_out" or late],
        axes={name: _ends([told[name] for told in every if name in told]) for name in list(names)[:1]},
    )


def _table(column: str, groups: Sequence[_Group], several: bool) -> Markup:
    every = [told for group in groups for told in group.models.values()]
    shape = _shape(every, several)
    bodies = [tag("tbody", _rows(group, shape)) for group in groups]
    table = tag("table", tag("thead", tag("tr", _heads(column, shape))), bodies, class_="side")
    return scrolling(f"By {column}", table, tall=len(every) > MANY)


def _heads(column: str, shape: _Shape) -> list[Markup]:
    heads = [tag("th", name, scope="col") for name in (column, *(["Model"] if shape.several else []))]
    heads.append(tag("th", "Items", scope="col", class_="number"))
    for name in shape.names:
        heads.append(tag("th", name, scope="col", class_="number"))
        if name in shape.axes:
            drawn = tag("span", "The interval drawn", class_="unseen")
            heads.append(tag("th", drawn, scope="col", class_="drawn"))
    return heads + [tag("th", _RATES[rate], scope="col", class_="number") for rate in shape.rates]


def _rate(name: str, found: Found) -> bool:
    return name in RATES and found.get("node") == RATES[name]["node"]


def _ends(found: Sequence[Found]) -> tuple[float, float]:
    return ends(str(found[0].get("kind")), [values for one in found if (values := _values(one))])


def _values(found: Found) -> tuple[float, ...] | None:
    return numbers(*(found.get(name) for name in ("value", "low", "high")))


def _rows(group: _Group, shape: _Shape) -> list[Markup]:
    """A row for each model."""
    span = len(group.models) if len(group.models) > 1 else None
    rows: list[Markup] = []
    for number, (model, told) in enumerate(group.models.items()):
        name = tag("th", group.name, scope="rowgroup", rowspan=span) if not number else None
        of = tag("td", model) if shape.several else None
        items = tag("td", count(items_of(told)), class_="number")
        cells = [_cells(told.get(one, {}), shape.axes.get(one)) for one in shape.names]
        rates = [tag("td", share(told.get(rate, {}).get("value")), class_="number") for rate in shape.rates]
        rows.append(tag("tr", name, of, items, cells, rates))
    return rows


def _cells(found: Found, axis: tuple[float, float] | None) -> Markup:
    values = _values(found)
    said = between(*values[1:]) if values else "no interval" if found.get("items") else NOTHING
    value = tag("b", decimals(found.get("value")))
    cell = tag("td", value, tag("span", said, class_="soft"), class_="number value")
    if axis is None:
        return cell
    drawing = small(values[0], values[1], values[2], axis) if values else None
    return joined([cell, tag("td", drawing, class_="drawn")])

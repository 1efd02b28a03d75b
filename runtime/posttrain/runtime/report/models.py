"""An eval of several models: their metrics side by side, drawn below each other, and compared."""

from collections.abc import Sequence

from posttrain.runtime.figures.measures import CONFIDENCE
from posttrain.runtime.report.comparisons import comparisons_of
from posttrain.runtime.report.figures import between, count, decimals, finite, plural, share
from posttrain.runtime.report.markup import MANY, Markup, scrolling, tag
from posttrain.runtime.report.measured import Metric, metrics_in, shares_of
from posttrain.runtime.report.ranks import ranks
from posttrain.runtime.report.record import StepRecord

_RATES = {"unscored": "Unscored", "cut": "Cut short", "timed_out": "Timed out", "failed": "Failed"}
_ALWAYS = ("unscored", "cut")


def models_of(record: StepRecord, most: int) -> Markup | None:
    """With so many comparisons at most; nothing for an eval of one model."""
    found = [metric for metric in metrics_in(record) if metric.model]
    if not found:
        return None
    models = list(dict.fromkeys(metric.model for metric in found))
    names = list(dict.fromkeys(metric.name for metric in found))
    drawings = [ranks([one for one in found if one.name == name]) for name in names]
    head = [tag("h3", record.id), tag("span", plural(len(models), "model"), class_="soft")]
    return tag(
        "section",
        tag("div", head, class_="head"),
        _table(record, models, names, found),
        tag("div", drawings, class_="charts"),
        comparisons_of(record, names, most),
        class_="card models",
    )


def _table(record: StepRecord, models: Sequence[str], names: Sequence[str], found: list[Metric]) -> Markup:
    rates = [name for name in _RATES if name in _ALWAYS or _any(record, models, name)]
    heads = ["Model", *names, "Items", *(_RATES[name] for name in rates)]
    rows = [_row(record, model, names, rates, [m for m in found if m.model == model]) for model in models]
    head = [tag("th", words, scope="col", class_="number" if n else None) for n, words in enumerate(heads)]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="side")
    return scrolling(f"The models of {record.id}", table, tall=len(rows) > MANY)


def _any(record: StepRecord, models: Sequence[str], rate: str) -> bool:
    return any(finite(shares_of(record.facts, model).get(rate)) for model in models)


def _row(
    record: StepRecord, model: str, names: Sequence[str], rates: Sequence[str], found: list[Metric]
) -> Markup:
    by_name = {metric.name: metric for metric in found}
    shares = shares_of(record.facts, model)
    return tag(
        "tr",
        tag("th", model, scope="row"),
        [value_cell(by_name.get(name)) for name in names],
        tag("td", _items(found), class_="number"),
        [tag("td", share(shares.get(rate)), class_="number") for rate in rates],
    )


def value_cell(metric: Metric | None) -> Markup:
    """A value with its interval below it."""
    if metric is None:
        return tag("td", between(None, None), class_="number")
    values = metric.values
    interval = f"{between(*values[1:])}" if values else "no interval"
    said = tag("span", interval, class_="soft", title=f"{CONFIDENCE:.0%} interval")
    return tag("td", tag("b", decimals(metric.found.get("value"))), said, class_="number value")


def _items(found: Sequence[Metric]) -> str:
    """How many items the metrics are made from, the fewest and the most where they differ."""
    counts = sorted({n for one in found if (n := finite(one.found.get("items"))) is not None})
    return (
        " \u2013 ".join(dict.fromkeys(count(n) for n in (counts[0], counts[-1]))) if counts else count(None)
    )

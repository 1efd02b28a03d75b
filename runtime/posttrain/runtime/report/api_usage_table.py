"""Compares the planned requests, tokens and dollars of endpoints with those that the providers counted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.usage_log import EndpointUsage
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import DASH, finite_or_none, mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepRecord

_HEADS = ("Step", "Endpoint", "Requests", "Input tokens", "Output tokens", "Dollars")
_COUNTS = (("requests", "calls"), ("input_tokens", "input_tokens"), ("output_tokens", "output_tokens"))


def api_usage_table(run: RunRecord) -> Markup | None:
    """The endpoints of each step, with measured above planned values; None if the run used none."""
    rows = [
        _row(index, record, name)
        for index, record in enumerate(run.steps)
        for name in _endpoint_names(record)
    ]
    if not rows:
        return None
    head = [
        tag("th", words, scope="col", class_="number" if place > 1 else None)
        for place, words in enumerate(_HEADS)
    ]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="estimates")
    title = "API calls, measured and planned"
    return tag(
        "section", tag("h3", title), scroll_frame(title, table, tall=len(rows) > SCROLL_ROWS), class_="card"
    )


def _endpoint_names(record: StepRecord) -> Iterator[str]:
    """The endpoints that a step has used, or was planned to use if it has run."""
    planned = [str(one.get("endpoint")) for one in planned_calls(record)]
    yield from dict.fromkeys([*record.api_usage, *(planned if record.api_usage else ())])


def planned_calls(record: StepRecord) -> Sequence[Mapping[str, Any]]:
    """The calls of endpoints in the estimate of a step."""
    calls = record.estimate.get("api")
    return [mapping_or_empty(one) for one in calls] if isinstance(calls, list | tuple) else []


def _row(index: int, record: StepRecord, name: str) -> Markup:
    usage = record.api_usage.get(name, EndpointUsage())
    calls = [one for one in planned_calls(record) if one.get("endpoint") == name]
    cells = [
        _cell(f"{getattr(usage, field):,}", _planned_range(calls, planned, "{:,.0f}"))
        for field, planned in _COUNTS
    ]
    dollars = spent_dollars(usage, calls)
    spent = DASH if dollars is None else f"${dollars:,.2f}"
    return tag(
        "tr",
        tag("th", tag("a", record.id, href=f"#step-{index}"), scope="row"),
        tag("td", name, tag("span", _uncounted_note(usage), class_="soft")),
        cells,
        _cell(spent, _planned_range(calls, "dollars", "${:,.2f}")),
    )


def _cell(measured: str, planned: str) -> Markup:
    note = tag("span", f" planned {planned}" if planned else " no plan", class_="soft")
    return tag("td", tag("b", measured), note, class_="number")


def _uncounted_note(usage: EndpointUsage) -> str:
    return f" \u00b7 {usage.uncounted:,} without token counts" if usage.uncounted else ""


def spent_dollars(usage: EndpointUsage, calls: Sequence[Mapping[str, Any]]) -> float | None:
    """The dollars for the measured tokens, at the price in the plan; None if the plan has no price."""
    price = next((mapping_or_empty(one.get("price")) for one in calls if one.get("price")), None)
    rates = [finite_or_none(price.get(name)) for name in ("input", "output")] if price else [None]
    if None in rates:
        return None
    tokens = (usage.input_tokens, usage.output_tokens)
    return sum(count * (rate or 0.0) for count, rate in zip(tokens, rates, strict=True)) / 1e6


def _planned_range(calls: Sequence[Mapping[str, Any]], name: str, form: str) -> str:
    """The planned range, summed over the purposes of an endpoint; empty if it is not known."""
    bounds: list[float] = []
    for bound in ("min", "max"):
        values = [finite_or_none(one.get(f"{name}_{bound}")) for one in calls]
        if not values or None in values:
            return ""
        bounds.append(sum(value or 0.0 for value in values))
    low, high = (form.format(value) for value in bounds)
    return low if low == high else f"{low} to {high}"

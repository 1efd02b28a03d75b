"""Compares the planned time, peak memory and cost of each step with the measured values."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_cost,
    format_count,
    format_duration,
    format_short_duration,
    format_size,
)
from posttrain.runtime.report.run_costs import (
    Spending,
    api_tokens,
    executed_steps,
    expected_dollars,
    step_spending,
    sum_spending,
    trained_tokens,
)
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import known_state, state_icon, state_label

_MIB = 2**20
_GB = 10**9
_COMPARISON = ("Expected", "Compared")
_COST_NOTE = (
    "Cost: the measured time at the price of the hardware in the plan, and the tokens of endpoints at their"
    " prices. The total has the steps that this run executed."
)


def expected_seconds(record: StepRecord) -> float | None:
    return finite_or_none(record.estimate.get("seconds"))


def expected_memory(record: StepRecord) -> float | None:
    """The expected peak memory in bytes."""
    found = finite_or_none(record.estimate.get("memory_gb"))
    return None if found is None else found * _GB


def peak_memory(cost: Mapping[str, Any]) -> tuple[float, str] | None:
    """The peak memory in bytes, and where: on the GPU when the step used one."""
    for name, where in (("peak_gpu_mb", "GPU"), ("peak_memory_mb", "system memory")):
        found = finite_or_none(cost.get(name))
        if found:
            return found * _MIB, where
    return None


def estimates_table(run: RunRecord) -> Markup | None:
    """The steps with an estimate and a measurement, and those that spent tokens or dollars."""
    spent = {record.id: step_spending(record, run.plan.target) for record in run.steps}
    shown = [(index, record) for index, record in enumerate(run.steps) if _is_shown(record, spent[record.id])]
    if not shown:
        return None
    records = [record for _, record in shown]
    tokens = any(_tokens_text(record) for record in records)
    cost = any(spent[record.id] is not None for record in records)
    rows = [
        tag("tr", _name(index, record), _cells(record, spent[record.id], tokens, cost))
        for index, record in shown
    ]
    names = {record.id for record in records}
    executed = [record for record in executed_steps(run) if record.id in names]
    total = _total_row(executed, spent, tokens, cost) if len(executed) > 1 else None
    table = tag(
        "table",
        tag("thead", tag("tr", _heads(tokens, cost))),
        tag("tbody", rows),
        tag("tfoot", total) if total else None,
        class_="estimates",
    )
    title = "Expected and measured"
    frame = scroll_frame(title, table, tall=len(rows) > SCROLL_ROWS)
    note = tag("p", _COST_NOTE, class_="soft") if cost else None
    return tag("section", tag("h3", title), frame, note, class_="card")


def _is_shown(record: StepRecord, spent: Spending | None) -> bool:
    expected = expected_seconds(record) is not None or expected_memory(record) is not None
    measured = record.seconds is not None or peak_memory(record.cost) is not None
    return (expected and measured) or spent is not None or bool(_tokens_text(record))


def _heads(tokens: bool, cost: bool) -> list[Markup]:
    names = ["Time", *_COMPARISON, "Peak memory", *_COMPARISON]
    names += ["Tokens"] if tokens else []
    names += ["Cost", *_COMPARISON] if cost else []
    found = [
        tag("th", words, scope="col", class_=None if words == "Compared" else "number") for words in names
    ]
    return [tag("th", "Step", scope="col"), *found]


def _name(index: int, record: StepRecord) -> Markup:
    state = f" \u00b7 {state_label(record.state)}" if record.state != "done" else ""
    name = tag("a", state_icon(record.display_state), " ", tag("span", record.id), href=f"#step-{index}")
    shown = f"s-{known_state(record.display_state)}"
    return tag("th", name, tag("span", state, class_="soft"), scope="row", class_=shown)


def _cells(record: StepRecord, spent: Spending | None, tokens: bool, cost: bool) -> list[Markup]:
    peak, memory = peak_memory(record.cost), expected_memory(record)
    found = [
        *_compared(
            format_duration(record.seconds),
            expected_time(record) or DASH,
            _compare_time(record.seconds, expected_seconds(record), record.estimate),
        ),
        *_compared(
            format_size(peak[0]) if peak else DASH,
            format_size(memory),
            f"{peak[1]}, {_ratio_text(peak[0], memory)}" if peak and memory else "",
        ),
    ]
    if tokens:
        found.append(tag("td", _tokens_text(record) or DASH, class_="number"))
    return [*found, *(_cost_cells(spent, expected_dollars(record)) if cost else ())]


def _compared(measured: str, expected: str, comparison: str) -> list[Markup]:
    return [
        tag("td", tag("b", measured), class_="number"),
        tag("td", expected, class_="number"),
        tag("td", comparison, class_="soft"),
    ]


def _cost_cells(spent: Spending | None, expected: float | None) -> list[Markup]:
    compared = _ratio_text(spent.total, expected) if spent and spent.complete and expected else ""
    shown = DASH if expected is None else format_cost(expected)
    return _compared(spending_text(spent) if spent else DASH, shown, compared)


def spending_text(spent: Spending) -> str:
    return f"{'' if spent.complete else 'at least '}{format_cost(spent.total)}"


def _tokens_text(record: StepRecord) -> str:
    trained, called = trained_tokens(record), api_tokens(record)
    parts = [format_count(trained)] if trained else []
    return " + ".join([*parts, *([f"{format_count(called)} of endpoints"] if called else [])])


def _total_row(
    executed: Sequence[StepRecord], spent: Mapping[str, Spending | None], tokens: bool, cost: bool
) -> Markup:
    """The sums over the steps that the run executed. An estimate is summed where every step has one."""
    took = sum(record.seconds or 0.0 for record in executed)
    seconds = _complete_sum([expected_seconds(record) for record in executed])
    cells = _compared(
        format_duration(took),
        DASH if seconds is None else format_short_duration(seconds),
        _ratio_text(took, seconds) if seconds else "",
    )
    cells += [tag("td", colspan=3)]
    if tokens:
        count = sum((trained_tokens(record) or 0) + (api_tokens(record) or 0) for record in executed)
        cells.append(tag("td", format_count(count), class_="number"))
    if cost:
        total = sum_spending(spent[record.id] for record in executed)
        cells += _cost_cells(total, _complete_sum([expected_dollars(record) for record in executed]))
    return tag("tr", tag("th", "Total of this run", scope="row"), cells)


def _complete_sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def expected_time(record: StepRecord) -> str:
    """The expected time, with its bounds when the estimate has them."""
    seconds = expected_seconds(record)
    if seconds is None:
        return ""
    bounds = [finite_or_none(record.estimate.get(name)) for name in ("seconds_min", "seconds_max")]
    interval = (
        f" ({format_short_duration(bounds[0])} to {format_short_duration(bounds[1])})"
        if None not in bounds
        else ""
    )
    return f"{format_short_duration(seconds)}{interval}"


def _compare_time(took: float | None, seconds: float | None, estimate: Mapping[str, Any]) -> str:
    if took is None or not seconds:
        return ""
    least, most = finite_or_none(estimate.get("seconds_min")), finite_or_none(estimate.get("seconds_max"))
    if least is not None and most is not None and least <= took <= most:
        return "as expected"
    return _ratio_text(took, seconds)


def _ratio_text(found: float, expected: float) -> str:
    if expected <= 0:
        return ""
    ratio = found / expected
    return f"{ratio:.2g}x" if ratio > 0.1 else "under 0.1x"

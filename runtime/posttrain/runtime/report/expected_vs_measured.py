"""Compares the planned time and peak memory of each step with the measured values."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_duration,
    format_short_duration,
    format_size,
)
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import known_state, state_icon, state_label

_MIB = 2**20
_GB = 10**9


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
    """The steps with an estimate and a measurement."""
    shown = [
        (index, record)
        for index, record in enumerate(run.steps)
        if (expected_seconds(record) is not None or expected_memory(record) is not None)
        and (record.seconds is not None or peak_memory(record.cost) is not None)
    ]
    if not shown:
        return None
    heads = ("Step", "Time", "Expected", "", "Peak memory", "Expected", "")
    head = [_head(words, place) for place, words in enumerate(heads)]
    rows = [_row(index, record) for index, record in shown]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="estimates")
    return tag(
        "section",
        tag("h3", "Expected and measured"),
        scroll_frame("Expected and measured", table, tall=len(rows) > SCROLL_ROWS),
        class_="card",
    )


def _head(words: str, place: int) -> Markup:
    hidden = tag("span", "Comparison", class_="unseen")
    return tag("th", words or hidden, scope="col", class_="number" if place and words else None)


def _row(index: int, record: StepRecord) -> Markup:
    state = f" \u00b7 {state_label(record.state)}" if record.state != "done" else ""
    name = tag("a", state_icon(record.display_state), " ", tag("span", record.id), href=f"#step-{index}")
    peak, memory = peak_memory(record.cost), expected_memory(record)
    seconds = expected_seconds(record)
    return tag(
        "tr",
        tag(
            "th",
            name,
            tag("span", state, class_="soft"),
            scope="row",
            class_=f"s-{known_state(record.display_state)}",
        ),
        tag("td", tag("b", format_duration(record.seconds)), class_="number"),
        tag("td", expected_time(record) or DASH, class_="number"),
        tag("td", _compare_time(record.seconds, seconds, record.estimate), class_="soft"),
        tag("td", tag("b", format_size(peak[0]) if peak else DASH), class_="number"),
        tag("td", format_size(memory), class_="number"),
        tag("td", f"{peak[1]}, {_ratio_text(peak[0], memory)}" if peak and memory else "", class_="soft"),
    )


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
    return f"{ratio:.2g}x the estimate" if ratio > 0.1 else "under 0.1x the estimate"

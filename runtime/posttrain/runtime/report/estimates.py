"""What the plan expected of each step beside what it took: time, and the most memory at once."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.report.figures import NOTHING, brief, duration, finite, size
from posttrain.runtime.report.markup import MANY, Markup, scrolling, tag
from posttrain.runtime.report.record import RunRecord, StepRecord
from posttrain.runtime.report.states import icon, known, label

_MB = 2**20
_GB = 10**9


def expected_seconds(record: StepRecord) -> float | None:
    return finite(record.estimate.get("seconds"))


def expected_memory(record: StepRecord) -> float | None:
    """In bytes."""
    found = finite(record.estimate.get("memory_gb"))
    return None if found is None else found * _GB


def peak(cost: Mapping[str, Any]) -> tuple[float, str] | None:
    """The most memory that was held, in bytes, and where: on a GPU where one was used."""
    for name, where in (("peak_gpu_mb", "GPU"), ("peak_memory_mb", "main memory")):
        found = finite(cost.get(name))
        if found:
            return found * _MB, where
    return None


def estimates_table(run: RunRecord) -> Markup | None:
    """The steps of which something was expected, and that were made."""
    shown = [
        (index, record)
        for index, record in enumerate(run.steps)
        if (expected_seconds(record) is not None or expected_memory(record) is not None)
        and (record.seconds is not None or peak(record.cost) is not None)
    ]
    if not shown:
        return None
    heads = ("Step", "Took", "Expected", "", "Most memory", "Expected", "")
    head = [_head(words, place) for place, words in enumerate(heads)]
    rows = [_row(index, record) for index, record in shown]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="estimates")
    return tag(
        "section",
        tag("h3", "Expected and measured"),
        scrolling("Expected and measured", table, tall=len(rows) > MANY),
        class_="card",
    )


def _head(words: str, place: int) -> Markup:
    hidden = tag("span", "Compared", class_="unseen")
    return tag("th", words or hidden, scope="col", class_="number" if place and words else None)


def _row(index: int, record: StepRecord) -> Markup:
    state = f" \u00b7 {label(record.state)}" if record.state != "done" else ""
    name = tag("a", icon(record.sign), " ", tag("span", record.id), href=f"#step-{index}")
    held, memory = peak(record.cost), expected_memory(record)
    seconds = expected_seconds(record)
    return tag(
        "tr",
        tag("th", name, tag("span", state, class_="soft"), scope="row", class_=f"s-{known(record.sign)}"),
        tag("td", tag("b", duration(record.seconds)), class_="number"),
        tag("td", expected_time(record) or NOTHING, class_="number"),
        tag("td", _compared(record.seconds, seconds, record.estimate), class_="soft"),
        tag("td", tag("b", size(held[0]) if held else NOTHING), class_="number"),
        tag("td", size(memory), class_="number"),
        tag("td", f"{held[1]}, {_times(held[0], memory)}" if held and memory else "", class_="soft"),
    )


def expected_time(record: StepRecord) -> str:
    """The expected time with its bounds, where there are any."""
    seconds = expected_seconds(record)
    if seconds is None:
        return ""
    bounds = [finite(record.estimate.get(name)) for name in ("seconds_least", "seconds_most")]
    told = f" ({brief(bounds[0])} to {brief(bounds[1])})" if None not in bounds else ""
    return f"{brief(seconds)}{told}"


def _compared(took: float | None, seconds: float | None, estimate: Mapping[str, Any]) -> str:
    if took is None or not seconds:
        return ""
    least, most = finite(estimate.get("seconds_least")), finite(estimate.get("seconds_most"))
    if least is not None and most is not None and least <= took <= most:
        return "as expected"
    return _times(took, seconds)


def _times(found: float, expected: float) -> str:
    if expected <= 0:
        return ""
    return f"{found / expected:.2g} times" if found > 0.1 * expected else "less than a tenth"

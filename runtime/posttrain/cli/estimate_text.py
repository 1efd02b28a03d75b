"""Predicted time, memory and cost of steps, as text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posttrain.runtime.report.number_format import format_duration, format_short_duration

if TYPE_CHECKING:
    from posttrain.spec.plan import Step


BLANK = ""
IN_LOOP_EVALUATION = "in-loop evaluation"
# The kinds of steps that have a time estimate.
_TIMED_KINDS = ("train", "eval", "generate")


def estimate_cells(estimate: Mapping[str, Any] | None) -> tuple[str, str, str]:
    """Time, memory and cost of one step, for columns of a table."""
    known = estimate or {}
    seconds, memory, dollars = known.get("seconds"), known.get("memory_gb"), known.get("dollars")
    return (
        BLANK if seconds is None else format_short_duration(seconds),
        BLANK if memory is None else f"{memory:.1f} GB",
        BLANK if dollars is None else _cost_cell(known),
    )


def _cost_cell(estimate: Mapping[str, Any]) -> str:
    """The cost of one step, which is a lower bound if a price is not known."""
    if not _has_unknown_price(estimate):
        return format_dollars(estimate["dollars"])
    return f"at least {format_dollars(estimate['dollars'])}" if estimate["dollars"] else BLANK


def estimate_phrase(estimate: Mapping[str, Any] | None) -> str:
    """Time, memory and cost of one step, as one phrase."""
    return ", ".join(cell for cell in estimate_cells(estimate) if cell)


def total_estimate(steps: "Sequence[Step]") -> str:
    """Time and cost of several steps in sequence; empty if no step has an estimate."""
    seconds, dollars = _known_values(steps, "seconds"), _known_values(steps, "dollars")
    unpriced = any(_has_unknown_price(step.estimate) for step in steps if step.estimate)
    cost = f"{'at least ' if unpriced else ''}{format_dollars(sum(dollars))}" if dollars else BLANK
    if not seconds:
        return cost
    unknown = sum(step.kind in _TIMED_KINDS and not _is_time_known(step) for step in steps)
    text = f"{'at least' if unknown else 'about'} {format_duration(sum(seconds))}{_time_range(steps)}"
    text += f", {cost}" if cost else ""
    if not unknown:
        return text
    estimates = [step.estimate for step in steps if step.estimate]
    why = next((one["unknown_reason"] for one in estimates if "unknown_reason" in one), "")
    return f"{text}; {unknown} of unknown duration" + (f": {why}" if why else "")


def _is_time_known(step: "Step") -> bool:
    """Whether a step has a time that includes all of its parts."""
    return bool(_known_values([step], "seconds")) and "unknown_reason" not in (step.estimate or {})


def part_times(steps: "Iterable[Step]") -> str:
    """The time of each kind of part, over several steps; empty unless there are several kinds."""
    totals: dict[str, float] = {}
    for step in steps:
        for part in (step.estimate or {}).get("parts", ()):
            kind = _part_kind(part["name"])
            totals[kind] = totals.get(kind, 0.0) + part["seconds"]
    if len(totals) < 2:
        return BLANK
    return ", ".join(f"{kind} {format_short_duration(seconds)}" for kind, seconds in totals.items())


def _part_kind(name: str) -> str:
    """The kind of a part: evaluations have the name of their eval, and frozen models that of their role."""
    return IN_LOOP_EVALUATION if name.startswith(IN_LOOP_EVALUATION) else name


def _known_values(steps: "Iterable[Step]", name: str) -> list[float]:
    return [step.estimate[name] for step in steps if step.estimate and step.estimate.get(name) is not None]


def _time_range(steps: "Sequence[Step]") -> str:
    low, high = _known_values(steps, "seconds_min"), _known_values(steps, "seconds_max")
    return (
        f" ({format_short_duration(sum(low))} to {format_short_duration(sum(high))})" if low and high else ""
    )


def cost_lines(estimate: Mapping[str, Any]) -> Iterator[str]:
    """The cost of a step, and the calls of endpoints in it."""
    if estimate.get("dollars") is not None:
        yield f"{'at least ' if _has_unknown_price(estimate) else ''}{format_dollars(estimate['dollars'])}"
    for calls in estimate.get("api", ()):
        yield f"{calls['endpoint']}, {calls['purpose']}: {_calls_phrase(calls)}"
        if "price_unknown" in calls:
            yield calls["price_unknown"]


def _calls_phrase(calls: Mapping[str, Any]) -> str:
    """The requests, tokens and dollars of the calls of one endpoint."""
    if "unknown_reason" in calls:
        return calls["unknown_reason"]
    named = (("calls", "requests"), ("input_tokens", "input tokens"), ("output_tokens", "output tokens"))
    ranges = [f"{_count_range(calls, name)} {label}" for name, label in named]
    if "dollars_max" in calls:
        low, high = format_dollars(calls["dollars_min"]), format_dollars(calls["dollars_max"])
        ranges.append(f"{low} to {high} ({calls['price']['source']})")
    return ", ".join(ranges)


def _count_range(calls: Mapping[str, Any], name: str) -> str:
    low, high = (format_count(calls[f"{name}_{bound}"]) for bound in ("min", "max"))
    return low if low == high else f"{low} to {high}"


def api_total(steps: "Sequence[Step]") -> Iterator[str]:
    """The calls of endpoints over several steps: one line for each endpoint."""
    totals: dict[str, dict[str, Any]] = {}
    for calls in (one for step in steps for one in (step.estimate or {}).get("api", ())):
        total = totals.setdefault(calls["endpoint"], dict.fromkeys(_SUMMED, 0.0) | _endpoint_notes(calls))
        total["partial"] = total["partial"] or "unknown_reason" in calls
        for name in _SUMMED:
            total[name] += calls.get(name, 0.0)
    for name, total in totals.items():
        priced = {key: value for key, value in total.items() if "price" in total or "dollars" not in key}
        least = "at least " if total["partial"] else ""
        yield f"API calls of {name}: {least}{_calls_phrase(priced)}"
        if "price_unknown" in total:
            yield f"  {total['price_unknown']}"


_SUMMED = tuple(
    f"{name}_{bound}"
    for name in ("calls", "input_tokens", "output_tokens", "dollars")
    for bound in ("min", "max")
)


def _endpoint_notes(calls: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: calls[name] for name in ("price", "price_unknown") if name in calls}
    return {**kept, "partial": False}


def _has_unknown_price(estimate: Mapping[str, Any]) -> bool:
    return any("dollars_max" not in one for one in estimate.get("api", ()))


def format_count(number: float) -> str:
    """A number of requests or tokens, with a unit from a hundred thousand on."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 100 * scale or (number >= scale and unit != "k"):
            return f"{number / scale:.3g}{unit}"
    return f"{number:,.0f}"


def format_dollars(dollars: float) -> str:
    return f"${dollars:,.0f}" if dollars >= 1000 else f"${dollars:.2f}"

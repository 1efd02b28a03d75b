"""Predicted time, memory and cost of steps, as text."""

from collections.abc import Iterable, Mapping, Sequence
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
        BLANK if dollars is None else format_dollars(dollars),
    )


def estimate_phrase(estimate: Mapping[str, Any] | None) -> str:
    """Time, memory and cost of one step, as one phrase."""
    return ", ".join(cell for cell in estimate_cells(estimate) if cell)


def total_estimate(steps: "Sequence[Step]") -> str:
    """Time and cost of several steps in sequence; empty if no step has an estimate."""
    seconds, dollars = _known_values(steps, "seconds"), _known_values(steps, "dollars")
    if not seconds:
        return format_dollars(sum(dollars)) if dollars else BLANK
    unknown = sum(step.kind in _TIMED_KINDS and not _is_time_known(step) for step in steps)
    text = f"{'at least' if unknown else 'about'} {format_duration(sum(seconds))}{_time_range(steps)}"
    text += f", {format_dollars(sum(dollars))}" if dollars else ""
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


def format_dollars(dollars: float) -> str:
    return f"${dollars:,.0f}" if dollars >= 1000 else f"${dollars:.2f}"

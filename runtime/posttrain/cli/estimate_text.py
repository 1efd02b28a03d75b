"""What steps will take, in words: time, memory, money."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.report.number_format import format_duration, format_short_duration
from posttrain.spec.plan import Step

BLANK = ""
# The steps that take time worth speaking of.
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
    """The same as one phrase."""
    return ", ".join(cell for cell in estimate_cells(estimate) if cell)


def total_estimate(steps: Sequence[Step]) -> str:
    """Time and cost of several steps, one after the other; empty where nothing is known of any."""
    seconds, dollars = _known_values(steps, "seconds"), _known_values(steps, "dollars")
    if not seconds:
        return format_dollars(sum(dollars)) if dollars else BLANK
    unknown = sum(step.kind in _TIMED_KINDS and not _known_values([step], "seconds") for step in steps)
    said = f"{'at least' if unknown else 'about'} {format_duration(sum(seconds))}{_time_range(steps)}"
    said += f", {format_dollars(sum(dollars))}" if dollars else ""
    if not unknown:
        return said
    why = next((step.estimate["untold"] for step in steps if step.estimate and "untold" in step.estimate), "")
    return f"{said}; of {unknown} the time is not known" + (f": {why}" if why else "")


def _known_values(steps: Iterable[Step], name: str) -> list[float]:
    return [step.estimate[name] for step in steps if step.estimate and step.estimate.get(name) is not None]


def _time_range(steps: Sequence[Step]) -> str:
    least, most = _known_values(steps, "seconds_least"), _known_values(steps, "seconds_most")
    return (
        f" ({format_short_duration(sum(least))} to {format_short_duration(sum(most))})"
        if least and most
        else ""
    )


def format_dollars(dollars: float) -> str:
    return f"${dollars:,.0f}" if dollars >= 1000 else f"${dollars:.2f}"

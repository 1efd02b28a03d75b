"""What steps will take, in words: time, memory, money."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.report.figures import brief, duration
from posttrain.spec.plan import Step

NOTHING = ""
# The steps that take time worth speaking of.
_LONG = ("train", "eval", "generate")


def cells(estimate: Mapping[str, Any] | None) -> tuple[str, str, str]:
    """Time, memory and cost of one step, for columns of a table."""
    known = estimate or {}
    seconds, memory, dollars = known.get("seconds"), known.get("memory_gb"), known.get("dollars")
    return (
        NOTHING if seconds is None else brief(seconds),
        NOTHING if memory is None else f"{memory:.1f} GB",
        NOTHING if dollars is None else money(dollars),
    )


def in_words(estimate: Mapping[str, Any] | None) -> str:
    """The same as one phrase."""
    return ", ".join(cell for cell in cells(estimate) if cell)


def total(steps: Sequence[Step]) -> str:
    """Time and cost of several steps, one after the other; empty where nothing is known of any."""
    seconds, dollars = _known(steps, "seconds"), _known(steps, "dollars")
    if not seconds:
        return money(sum(dollars)) if dollars else NOTHING
    unknown = sum(step.kind in _LONG and not _known([step], "seconds") for step in steps)
    said = f"{'at least' if unknown else 'about'} {duration(sum(seconds))}{_between(steps)}"
    said += f", {money(sum(dollars))}" if dollars else ""
    if not unknown:
        return said
    why = next((step.estimate["untold"] for step in steps if step.estimate and "untold" in step.estimate), "")
    return f"{said}; of {unknown} the time is not known" + (f": {why}" if why else "")


def _known(steps: Iterable[Step], name: str) -> list[float]:
    return [step.estimate[name] for step in steps if step.estimate and step.estimate.get(name) is not None]


def _between(steps: Sequence[Step]) -> str:
    least, most = _known(steps, "seconds_least"), _known(steps, "seconds_most")
    return f" ({brief(sum(least))} to {brief(sum(most))})" if least and most else ""


def money(dollars: float) -> str:
    return f"${dollars:,.0f}" if dollars >= 1000 else f"${dollars:.2f}"

"""The running time and the tokens of a stage at its optimizer steps: the other axes of a curve."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty

# The tokens of the steps since the metrics before.
TOKENS_METRIC = "cost/tokens"


@dataclass(frozen=True, kw_only=True)
class StepProgress:
    """Both have pairs of an optimizer step and a sum up to it, with rising steps."""

    # Time of the attempts, without the pauses between them.
    seconds: tuple[tuple[float, float], ...] = ()
    tokens: tuple[tuple[float, float], ...] = ()


class ProgressSums:
    """Sums the running time and the tokens over the events of a stage, in their order."""

    def __init__(self) -> None:
        self._seconds, self._tokens = 0.0, 0.0
        self._before: float | None = None
        # The newest step with metrics, and the running time at its first ones: its evaluation comes later.
        self._step: float | None = None
        self._step_seconds = 0.0

    def resume(self, previous: "ProgressSums", tokens: float) -> None:
        """Go on from an attempt: with all of its time, and the tokens until its checkpoint."""
        self._seconds += previous._seconds
        self._tokens = tokens

    def add(self, event: Mapping[str, Any]) -> tuple[float | None, float | None]:
        """The running time and the tokens until an event, if it has metrics and counts them."""
        at = finite_or_none(event.get("at"))
        if at is None:
            return None, None
        if self._before is not None and event.get("kind") != "started":
            self._seconds += max(0.0, at - self._before)
        self._before = at
        step = finite_or_none(event.get("step"))
        if event.get("kind") != "metrics" or step is None:
            return None, None
        if step != self._step:
            self._step, self._step_seconds = step, self._seconds
        count = finite_or_none(mapping_or_empty(event.get("values")).get(TOKENS_METRIC))
        if count is None or count < 0:
            return self._step_seconds, None
        self._tokens += count
        return self._step_seconds, self._tokens


def read_progress(events: Iterable[Mapping[str, Any]]) -> StepProgress:
    """The progress of a stage, from its events in their order."""
    seconds, tokens, sums = dict[float, float](), dict[float, float](), ProgressSums()
    for event in events:
        passed, used = sums.add(event)
        step = finite_or_none(event.get("step"))
        if passed is None or step is None:
            continue
        seconds[step] = passed
        if used is not None:
            tokens[step] = used
    return StepProgress(seconds=rising_sums(seconds.items()), tokens=rising_sums(tokens.items()))


def rising_sums(sums: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The sums by step. A damaged file can have steps out of order: a sum never falls."""
    found: list[tuple[float, float]] = []
    for step, total in sorted(sums):
        found.append((step, max(total, found[-1][1] if found else 0.0)))
    return tuple(found)


def sums_at(sums: Sequence[tuple[float, float]], steps: Iterable[float]) -> tuple[float, ...]:
    """The sum at each step, or at the last step before it that has one; empty if none is known."""
    if not sums:
        return ()
    known = [step for step, _ in sums]
    places = (bisect_right(known, step) - 1 for step in steps)
    return tuple(sums[place][1] if place >= 0 else 0.0 for place in places)

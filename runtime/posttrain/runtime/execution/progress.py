"""Where each step of a run stands, and whether it can begin."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.events import EventTail
from posttrain.runtime.execution.gating import closed, opens
from posttrain.runtime.execution.selection import holding
from posttrain.runtime.keeping.locks import Lock
from posttrain.runtime.keeping.store import Product
from posttrain.runtime.runners.by_step import Handle
from posttrain.spec.plan import Resources, Step
from posttrain.spec.record import record

FINISHED = ("cached", "done")
# A skipped step hinders nobody who can do without it.
WELL = (*FINISHED, "skipped")
ENDED = (*WELL, "failed", "interrupted", "held", "blocked")


@dataclass
class Progress:
    """One step of a run."""

    step: Step
    key: str
    wanted: Resources
    state: str = "waiting"
    product: Product | None = None
    handle: Handle | None = None
    # Whether an earlier client has started it, and it may have ended long ago.
    left: bool = False
    lock: Lock | None = None
    attempt: int = 0
    # Whether a gate's verdict has left it out: it belongs to a branch that is not taken.
    untaken: bool = False
    not_before: float = 0.0
    deadline: float | None = None
    tail: EventTail | None = None

    def latest(self, work: Path) -> dict[str, Any] | None:
        """What the step has newly said about how far it is."""
        if self.tail is None:
            self.tail = EventTail(work / "record" / "events.jsonl")
        return self.tail.progress()

    def warnings(self) -> list[dict[str, Any]]:
        """What the step has newly warned of, in what `latest` has read."""
        return self.tail.warnings() if self.tail is not None else []

    def overdue(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


@record
class Board:
    """All steps of a run, and what its user left out by name."""

    steps: Mapping[str, Progress]
    skipped: frozenset[str] = frozenset()

    def hindrance(self, step: Step, *, made: bool) -> tuple[str, str] | None:
        """Why a step will not run, as its state and the reason. One that is made reads nothing more."""
        for gate in self._gates(step):
            found = self.steps[gate]
            decided = found.product if found.state in WELL else None
            if decided is not None and not opens(found.step, decided, step):
                return closed(found.step, decided, step)
            if _came_to_nothing(found):
                return ("held" if found.state == "held" else "blocked"), f"{gate} was {found.state}"
        for given in () if made else step.inputs.values():
            if self.steps[given.step].untaken:
                return "skipped", f"it reads {given.step}, which is for another case"
            if _came_to_nothing(self.steps[given.step]):
                return "blocked", f"{given.step} was {self.steps[given.step].state}"
        return None

    def ready(self, step: Step, *, made: bool) -> bool:
        """Whether all that a step needs is there."""
        reads = () if made else (given.step for given in step.inputs.values())
        return all(self.steps[id].state in WELL for id in (*self._gates(step), *reads))

    def maker(self, key: str) -> Progress | None:
        """The step whose product has this key."""
        return next((progress for progress in self.steps.values() if progress.key == key), None)

    def _gates(self, step: Step) -> list[str]:
        steps = {gate: self.steps[gate].step for gate in step.gates}
        if not self.skipped.intersection(steps):
            return list(steps)
        return holding(step, {id: progress.step for id, progress in self.steps.items()}, self.skipped)


def _came_to_nothing(found: Progress) -> bool:
    if found.state == "skipped":
        return found.product is None
    return found.state in ENDED and found.state not in WELL

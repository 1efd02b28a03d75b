"""Where each step of a run stands, and whether it can begin."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.events import EventTail
from posttrain.runtime.execution.gate_state import closed_gate_state, is_gate_open
from posttrain.runtime.execution.selection import effective_gates
from posttrain.runtime.runners.dispatch import StepHandle
from posttrain.runtime.store.file_locks import Lock
from posttrain.runtime.store.products import Product
from posttrain.spec.plan import Resources, Step
from posttrain.spec.record import record

FINISHED_STATES = ("cached", "done")
# A skipped step hinders nobody who can do without it.
SATISFIED_STATES = (*FINISHED_STATES, "skipped")
TERMINAL_STATES = (*SATISFIED_STATES, "failed", "interrupted", "held", "blocked")


@dataclass
class StepProgress:
    """One step of a run."""

    step: Step
    key: str
    required: Resources
    state: str = "waiting"
    product: Product | None = None
    handle: StepHandle | None = None
    # Whether an earlier client has started it, and it may have ended long ago.
    inherited: bool = False
    lock: Lock | None = None
    attempt: int = 0
    # Whether a gate's verdict has left it out: it belongs to a branch that is not taken.
    branch_skipped: bool = False
    not_before: float = 0.0
    deadline: float | None = None
    tail: EventTail | None = None

    def read_progress(self, work: Path) -> dict[str, Any] | None:
        """What the step has newly said about how far it is."""
        if self.tail is None:
            self.tail = EventTail(work / "record" / "events.jsonl")
        return self.tail.progress()

    def warnings(self) -> list[dict[str, Any]]:
        """What the step has newly warned of, in what `read_progress` has read."""
        return self.tail.warnings() if self.tail is not None else []

    def is_timed_out(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


@record
class StepDependencies:
    """All steps of a run, and what its user left out by name."""

    steps: Mapping[str, StepProgress]
    skipped: frozenset[str] = frozenset()

    def blocking_state(self, step: Step, *, is_cached: bool) -> tuple[str, str] | None:
        """Why a step will not run, as its state and the reason. A cached step reads no inputs."""
        for gate in self._gates(step):
            found = self.steps[gate]
            decided = found.product if found.state in SATISFIED_STATES else None
            if decided is not None and not is_gate_open(found.step, decided, step):
                return closed_gate_state(found.step, decided, step)
            if _has_no_result(found):
                return ("held" if found.state == "held" else "blocked"), f"{gate} was {found.state}"
        for source in () if is_cached else step.inputs.values():
            if self.steps[source.step].branch_skipped:
                return "skipped", f"it reads {source.step}, which is for another case"
            if _has_no_result(self.steps[source.step]):
                return "blocked", f"{source.step} was {self.steps[source.step].state}"
        return None

    def is_ready(self, step: Step, *, is_cached: bool) -> bool:
        """Whether all that a step needs is there."""
        reads = () if is_cached else (source.step for source in step.inputs.values())
        return all(self.steps[id].state in SATISFIED_STATES for id in (*self._gates(step), *reads))

    def step_for_key(self, key: str) -> StepProgress | None:
        """The step whose product has this key."""
        return next((progress for progress in self.steps.values() if progress.key == key), None)

    def _gates(self, step: Step) -> list[str]:
        steps = {gate: self.steps[gate].step for gate in step.gates}
        if not self.skipped.intersection(steps):
            return list(steps)
        return effective_gates(step, {id: progress.step for id, progress in self.steps.items()}, self.skipped)


def _has_no_result(found: StepProgress) -> bool:
    if found.state == "skipped":
        return found.product is None
    return found.state in TERMINAL_STATES and found.state not in SATISFIED_STATES

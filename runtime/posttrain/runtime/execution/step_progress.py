"""Tracks the state of each step of a run, and decides whether it can start."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime.event_tail import EventTail
from posttrain.runtime.execution.gate_state import closed_gate_state, is_gate_open
from posttrain.runtime.execution.selection import effective_gates
from posttrain.runtime.runners.dispatch import StepHandle
from posttrain.runtime.store.file_locks import Lock
from posttrain.runtime.store.products import Product
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Resources, Step

FINISHED_STATES = ("cached", "done")
# A skipped step blocks only the steps that read a product it does not have.
SATISFIED_STATES = (*FINISHED_STATES, "skipped")
# A runner has the step.
ACTIVE_STATES = ("queued", "running")
TERMINAL_STATES = (*SATISFIED_STATES, "failed", "interrupted", "held", "blocked")


@dataclass
class StepProgress:
    """One step of a run."""

    step: "Step"
    key: str
    required: "Resources"
    state: str = "waiting"
    product: Product | None = None
    handle: StepHandle | None = None
    # Why a queued step waits.
    queue_reason: str = ""
    # Whether an earlier client started it; it can have finished long ago.
    inherited: bool = False
    lock: Lock | None = None
    # Whether the user knows that another machine has the lock and may be gone.
    has_stale_claim: bool = False
    attempt: int = 0
    # Whether it was skipped because it belongs to a branch that the gate did not take.
    branch_skipped: bool = False
    not_before: float = 0.0
    deadline: float | None = None
    tail: EventTail | None = None

    def skip_past_events(self, work: Path) -> None:
        """Before a launch: the events of earlier attempts say nothing about this one."""
        if self.tail is None:
            self.tail = EventTail(work / "record" / "events.jsonl", only_new=True)

    def read_progress(self, work: Path) -> dict[str, Any] | None:
        """The new progress of the step since the last call."""
        if self.tail is None:
            self.tail = EventTail(work / "record" / "events.jsonl")
        return self.tail.progress()

    def warnings(self) -> list[dict[str, Any]]:
        """The new warnings in the events that `read_progress` has read."""
        return self.tail.warnings() if self.tail is not None else []

    def is_timed_out(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


@record
class StepDependencies:
    """All steps of a run, and those that the user excluded with `--skip`."""

    steps: Mapping[str, StepProgress]
    skipped: frozenset[str] = frozenset()

    def blocking_state(self, step: "Step", *, is_cached: bool) -> tuple[str, str] | None:
        """The state and the reason of a step that will not run, else None. A cached step needs no inputs."""
        for gate in self._gates(step):
            found = self.steps[gate]
            decided = found.product if found.state in SATISFIED_STATES else None
            if decided is not None and not is_gate_open(found.step, decided, step):
                return closed_gate_state(found.step, decided, step)
            if _has_no_result(found):
                return ("held" if found.state == "held" else "blocked"), f"{gate} was {found.state}"
        for source in () if is_cached else step.inputs.values():
            if self.steps[source.step].branch_skipped:
                return "skipped", f"it reads {source.step}, which belongs to another branch"
            if _has_no_result(self.steps[source.step]):
                return "blocked", f"{source.step} was {self.steps[source.step].state}"
        return None

    def is_ready(self, step: "Step", *, is_cached: bool) -> bool:
        """Whether all gates and inputs of a step are satisfied."""
        reads = () if is_cached else (source.step for source in step.inputs.values())
        return all(self.steps[id].state in SATISFIED_STATES for id in (*self._gates(step), *reads))

    def step_for_key(self, key: str) -> StepProgress | None:
        """The step whose product has this key."""
        return next((progress for progress in self.steps.values() if progress.key == key), None)

    def _gates(self, step: "Step") -> list[str]:
        steps = {gate: self.steps[gate].step for gate in step.gates}
        if not self.skipped.intersection(steps):
            return list(steps)
        return effective_gates(step, {id: progress.step for id, progress in self.steps.items()}, self.skipped)


def _has_no_result(found: StepProgress) -> bool:
    if found.state == "skipped":
        return found.product is None
    return found.state in TERMINAL_STATES and found.state not in SATISFIED_STATES

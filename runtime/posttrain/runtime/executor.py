"""Walks a plan: starts what can start, watches it, commits what ends well.

A step is waiting until it is cached (its product stands in the store), running, done, failed,
interrupted, held (a gate did not open) or blocked (something that it needs did not finish).
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime import workplace
from posttrain.runtime.events import EventTail
from posttrain.runtime.faults import StepFault
from posttrain.runtime.gating import opens
from posttrain.runtime.home import Home
from posttrain.runtime.journal import Journal
from posttrain.runtime.locks import Lock, try_lock
from posttrain.runtime.runners.by_step import Handle, Runners
from posttrain.runtime.runs import run_key
from posttrain.runtime.store import Product
from posttrain.runtime.worker import STOPPED
from posttrain.spec.plan import Plan, Step

FINISHED = ("cached", "done")
ENDED = (*FINISHED, "failed", "interrupted", "held", "blocked")
_PAUSE = 0.05

# Told of every change: the step's id, its new state, and what is known about it.
Watch = Callable[[str, str, Mapping[str, Any]], None]


@dataclass
class Progress:
    """Where a step stands."""

    step: Step
    key: str
    state: str = "waiting"
    product: Product | None = None
    handle: Handle | None = None
    lock: Lock | None = None
    attempt: int = 0
    not_before: float = 0.0
    deadline: float | None = None
    tail: EventTail | None = None


@dataclass
class Stopping:
    """How the run has been asked to end: 1 keeps what is under way, 2 ends it at once."""

    level: int = 0


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where and how a plan is executed."""

    home: Home
    # The recipe's folder: user files are read from there.
    beside: Path
    journal: Journal
    watch: Watch
    # The run's name: products of steps that are not pinned belong to it alone.
    run: str
    runner: Runners = field(default_factory=Runners)
    stopping: Stopping = field(default_factory=Stopping)
    cpus: int = os.cpu_count() or 1


def execute(plan: Plan, around: Surroundings) -> dict[str, str]:
    """Carry the plan out; gives the state in which each step ended."""
    return _Execution(plan, around).run()


class _Execution:
    def __init__(self, plan: Plan, around: Surroundings) -> None:
        self.plan = plan
        self.around = around
        self.steps: dict[str, Progress] = {}
        self.given_up: set[str] = set()
        for step in plan.steps:
            self.steps[step.id] = Progress(step, run_key(step, around.run))

    def run(self) -> dict[str, str]:
        missing = [id for id, p in self.steps.items() if self.around.home.store.find(p.key) is None]
        self.around.runner.expect(self.plan, missing, self.around.home.runs / self.around.run)
        try:
            while self._advance():
                time.sleep(_PAUSE)
        finally:
            self._end_all()
            self.around.runner.close()
        return {id: progress.state for id, progress in self.steps.items()}

    def _advance(self) -> bool:
        """One round over the steps; false when nothing is left to wait for."""
        running = [p for p in self.steps.values() if p.state == "running"]
        for progress in running:
            self._poll(progress)
        changed = True
        while changed:
            changed = False
            for progress in self.steps.values():
                if progress.state == "waiting":
                    changed = self._consider(progress) or changed
        return any(p.state not in ENDED for p in self.steps.values())

    def _consider(self, progress: Progress) -> bool:
        """Start a waiting step, or settle it without a start; whether its state changed."""
        step = progress.step
        verdict = self._hindrance(step)
        if verdict is not None:
            self._settle(progress, *verdict)
            return True
        if not self._ready(step):
            return False
        product = self.around.home.store.find(progress.key)
        if product is not None:
            progress.product = product
            self._settle(
                progress, "cached", "", facts=dict(product.facts), cost=dict(product.manifest["cost"])
            )
            return True
        if self.around.stopping.level:
            self._settle(progress, "interrupted", "the run was stopped before it began")
            return True
        if time.monotonic() < progress.not_before or not self._room(step):
            return False
        return self._start(progress)

    def _hindrance(self, step: Step) -> tuple[str, str] | None:
        """Why a step will not run, as its state and the reason."""
        for gate in step.gates:
            found = self.steps[gate]
            if found.state in FINISHED and found.product is not None and not opens(found.step, found.product):
                return "held", f"the gate {gate} did not open"
            if found.state in ENDED and found.state not in FINISHED:
                return ("held" if found.state == "held" else "blocked"), f"{gate} was {found.state}"
        for given in step.inputs.values():
            found = self.steps[given.step]
            if found.state in ENDED and found.state not in FINISHED:
                return "blocked", f"{given.step} was {found.state}"
        if self.given_up & {"", step.leg} and not self._shielded(step):
            return "blocked", "an earlier step failed"
        return None

    def _shielded(self, step: Step) -> bool:
        """A step whose product is there already is taken even after a failure elsewhere."""
        return self.around.home.store.find(self.steps[step.id].key) is not None

    def _ready(self, step: Step) -> bool:
        needed = [*step.gates, *(given.step for given in step.inputs.values())]
        return all(self.steps[id].state in FINISHED for id in needed)

    def _room(self, step: Step) -> bool:
        taken = [p.step.resources.cpus for p in self.steps.values() if p.state == "running"]
        wanted = step.resources.cpus
        return not taken or sum(taken) + wanted <= self.around.cpus

    def _start(self, progress: Progress) -> bool:
        lock = try_lock(self.around.home.lock(progress.key))
        if lock is None:
            return False  # somebody else runs it: its product will be found in the store
        progress.lock = lock
        found = self.around.home.store.find(progress.key)
        work = self.around.home.work(progress.key)
        left = None if found else self.around.runner.attach(work, progress.step)
        receipt = None if found or left else workplace.finished(work)
        if left is not None:
            self._under_way(progress, left, "an earlier client left it running")
        elif receipt is not None:
            self._commit(progress, receipt)
        elif found is None:
            self._launch(progress, work)
        else:
            self._release(progress)
        return True

    def _launch(self, progress: Progress, work: Path) -> None:
        step = progress.step
        inputs: dict[str, Path] = {}
        for role, given in step.inputs.items():
            product = self.steps[given.step].product
            assert product is not None, f"{given.step} is finished without a product"
            damage = self.around.home.store.damage(product)
            if damage is not None:
                self._release(progress)
                self._make_again(self.steps[given.step], damage)
                return
            inputs[role] = product.files
        try:
            workplace.prepare(work, step, inputs, self.around.beside)
        except StepFault as fault:
            self._fail(progress, {"message": str(fault), "advice": fault.advice, "retriable": False})
            return
        assert progress.lock is not None, "a step is launched under its lock"
        secrets = {name: os.environ[name] for name in step.secrets if name in os.environ}
        handle = self.around.runner.start(work, step, secrets, progress.lock.descriptor)
        self._under_way(progress, handle, "")

    def _under_way(self, progress: Progress, handle: Handle, reason: str) -> None:
        progress.handle = handle
        progress.attempt += 1
        if progress.step.timeout_minutes is not None:
            progress.deadline = time.monotonic() + progress.step.timeout_minutes * 60
        self._settle(progress, "running", reason, attempt=progress.attempt)

    def _make_again(self, damaged: Progress, damage: str) -> None:
        aside = self.around.home.store.set_aside(damaged.key)
        damaged.state, damaged.product = "waiting", None
        reason = f"its product was damaged ({damage}); set aside as {aside.name if aside else 'nothing'}"
        self._settle(damaged, "waiting", reason)

    def _poll(self, progress: Progress) -> None:
        assert progress.handle is not None, "a running step has a handle"
        if self.around.stopping.level:
            self.around.runner.stop(progress.handle, now=self.around.stopping.level > 1)
        status = self.around.runner.poll(progress.handle)
        work = self.around.home.work(progress.key)
        if status is None:
            self._report(progress, work)
            if progress.deadline is not None and time.monotonic() > progress.deadline:
                self.around.runner.stop(progress.handle, now=True)
                minutes = progress.step.timeout_minutes
                message = f"it took longer than its {minutes:g} minutes"
                advice = "raise timeout_minutes; what its checkpoints hold is kept"
                self._fail(progress, {"message": message, "advice": advice, "retriable": False})
            return
        receipt = workplace.finished(work) if status == 0 else None
        if receipt is not None:
            self._commit(progress, receipt)
        elif status == STOPPED or self.around.stopping.level:
            self._release(progress)
            self._settle(progress, "interrupted", "stopped; it goes on from its last checkpoint")
        else:
            self._failed_attempt(progress, workplace.failure(work, status))

    def _report(self, progress: Progress, work: Path) -> None:
        """Pass on what the step has said about how far it is."""
        if progress.tail is None:
            progress.tail = EventTail(work / "record" / "events.jsonl")
        latest = progress.tail.progress()
        if latest is not None:
            self.around.watch(progress.step.id, "progress", latest)

    def _failed_attempt(self, progress: Progress, failure: dict[str, Any]) -> None:
        step = progress.step
        if failure["retriable"] and progress.attempt < step.attempts:
            pause = step.wait_seconds * 2 ** (progress.attempt - 1)
            progress.not_before = time.monotonic() + pause
            self._release(progress)
            reason = f"{failure['message']}; tried again in {pause:g} s"
            self._settle(progress, "waiting", reason)
        else:
            self._fail(progress, failure)

    def _fail(self, progress: Progress, failure: dict[str, Any]) -> None:
        self._release(progress)
        if progress.step.on_failure == "stop":
            self.given_up.add(progress.step.leg)  # other legs of a matrix go on
        self._settle(progress, "failed", failure["message"], advice=failure["advice"])

    def _commit(self, progress: Progress, receipt: Mapping[str, Any]) -> None:
        work = self.around.home.work(progress.key)
        store = self.around.home.store
        progress.product = workplace.commit(work, progress.step, progress.key, receipt, store)
        self._release(progress)
        self._settle(progress, "done", "", facts=dict(receipt["facts"]), cost=dict(receipt["cost"]))

    def _release(self, progress: Progress) -> None:
        if progress.lock is not None:
            progress.lock.release()
            progress.lock = None

    def _settle(self, progress: Progress, state: str, reason: str, **known: Any) -> None:
        progress.state = state
        self.around.journal.note(progress.step.id, state, reason=reason, **known)
        self.around.watch(progress.step.id, state, {"reason": reason, **known})

    def _end_all(self) -> None:
        """Leave no process behind, however the run ends."""
        for progress in self.steps.values():
            if progress.state == "running" and progress.handle is not None:
                self.around.runner.stop(progress.handle, now=True)
                self._release(progress)

"""Walks a plan: starts what can start, watches it, commits what ends well.

A step is waiting until it is cached (its product stands in the store), running, done, failed,
interrupted, held (a gate did not open), blocked (something that it needs did not finish) or skipped
(the user did not ask for it).
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import workplace
from posttrain.runtime.execution.progress import ENDED, WELL, Board, Progress
from posttrain.runtime.execution.slots import Slots, wanted
from posttrain.runtime.execution.surroundings import Surroundings
from posttrain.runtime.faults import STOPPED, StepFault, failure
from posttrain.runtime.keeping.custody import Custody, Damage
from posttrain.runtime.keeping.locks import try_lock
from posttrain.runtime.keeping.runs import run_key
from posttrain.runtime.keeping.store import Product
from posttrain.runtime.machine import too_large
from posttrain.runtime.runners.by_step import Handle
from posttrain.spec.plan import Plan

_PAUSE = 0.05  # seconds between two looks, at most


def execute(plan: Plan, around: Surroundings) -> dict[str, str]:
    """Carry the plan out; gives the state in which each step ended."""
    return _Execution(plan, around).run()


class _Execution:
    def __init__(self, plan: Plan, around: Surroundings) -> None:
        self.plan = plan
        self.around = around
        self.steps = {step.id: Progress(step, run_key(step, around.run), wanted(step)) for step in plan.steps}
        self.board = Board(self.steps, around.selection.skipped if around.selection else frozenset())
        self.custody = Custody(around.home.store)
        self.slots = Slots(around.machine, around.home.slots)
        self.given_up: set[str] = set()
        self.changed = time.monotonic()
        # What stands in the store as the run begins.
        self.made: dict[str, Product] = {}

    def run(self) -> dict[str, str]:
        find = self.around.home.store.find
        self.made = {id: made for id, p in self.steps.items() if (made := find(p.key)) is not None}
        self._leave_out()
        missing = [id for id, p in self.steps.items() if id not in self.made and p.state == "waiting"]
        self.around.runner.expect(self.plan, missing, self.around.home.runs / self.around.run)
        try:
            while self._advance():
                # What has just begun may soon end: short steps are not to be paid in waiting.
                time.sleep(min(_PAUSE, max(0.002, (time.monotonic() - self.changed) / 10)))
        finally:
            self._end_all()
            self.around.runner.close()
        return {id: progress.state for id, progress in self.steps.items()}

    def _leave_out(self) -> None:
        """Settle what was not asked for. What it made earlier is there for those who read it."""
        selection = self.around.selection
        for id, progress in self.steps.items():
            if selection is not None and id not in selection.steps:
                progress.product = self.made.get(id)
                reason = "as asked" if id in selection.skipped else "not selected"
                self._settle(progress, "skipped", reason)

    def _advance(self) -> bool:
        """One round over the steps; false when nothing is left to wait for."""
        for progress in [p for p in self.steps.values() if p.state == "running"]:
            self._poll(progress)
        changed = True
        while changed:
            changed = False
            for progress in self.steps.values():
                if progress.state == "waiting":
                    changed = self._consider(progress) or changed
        self.around.journal.flush()
        return any(p.state not in ENDED for p in self.steps.values())

    def _consider(self, progress: Progress) -> bool:
        """Start a waiting step, or settle it without a start; whether its state changed."""
        step = progress.step
        made = self.made.get(step.id)
        verdict = self.board.hindrance(step, made=made is not None)
        if made is None and self.given_up & {"", step.leg}:
            verdict = verdict or ("blocked", "an earlier step failed")
        if verdict is not None:
            progress.untaken = verdict[0] == "skipped"
            self._settle(progress, *verdict)
            return True
        if not self.board.ready(step, made=made is not None):
            return False
        if made is not None:
            self._take(progress, made)
            return True
        if self.around.stopping.level:
            self._settle(progress, "interrupted", "the run was stopped before it began")
            return True
        if time.monotonic() < progress.not_before:
            return False
        return self._start(progress)

    def _take(self, progress: Progress, made: Product) -> None:
        progress.product = made
        reason = made.came_by
        self._settle(progress, "cached", reason, facts=dict(made.facts), cost=dict(made.manifest["cost"]))

    def _start(self, progress: Progress) -> bool:
        """Start a step if nobody else runs it and there is room; whether its state changed."""
        step = progress.step
        if impossible := too_large([step], self.around.machine):
            self._fail(progress, failure(StepFault(impossible[0])))
            return True
        if not self.slots.room(progress.wanted):
            return False
        progress.lock = try_lock(self.around.home.lock(progress.key))
        if progress.lock is None:
            return False  # somebody else runs it: its product will be found in the store
        changed = self._start_locked(progress)
        if progress.state != "running":
            self._release(progress)
        return changed

    def _start_locked(self, progress: Progress) -> bool:
        self.around.journal.flush()  # to hold the inputs to their digests may take long
        found = self.around.home.store.find(progress.key)
        if found is not None:
            self.made[progress.step.id] = found
            self._release(progress, for_good=True)
            return True
        if self.slots.take(progress.step.id, progress.wanted) is None:
            return False
        work = self.around.home.work(progress.key)
        left = self.around.runner.attach(work, progress.step)
        if left is not None:
            progress.left = True
            self._under_way(progress, left, "an earlier client left it running")
            return True
        receipt = workplace.finished(work, left=True)
        if receipt is not None:
            self._commit(progress, receipt)
            return True
        return self._launch(progress, work)

    def _launch(self, progress: Progress, work: Path) -> bool:
        step = progress.step
        inputs: dict[str, Path] = {}
        for role, given in step.inputs.items():
            product = self.steps[given.step].product
            assert product is not None, f"{given.step} is finished without a product"
            damage = self.custody.damage(product)
            if damage is not None:
                return self._mend(progress, given.step, damage)
            inputs[role] = product.files
        try:
            workplace.prepare(work, step, inputs, self.around.beside)
        except StepFault as told:
            self._fail(progress, failure(told))
            return True
        assert progress.lock is not None, "a step is launched under its lock"
        secrets = {name: os.environ[name] for name in step.secrets if name in os.environ}
        gpus = self.slots.gpus(step.id)
        progress.left = False
        handle = self.around.runner.start(work, step, secrets, progress.lock.descriptor, gpus)
        self._under_way(progress, handle, "")
        return True

    def _under_way(self, progress: Progress, handle: Handle, reason: str) -> None:
        progress.handle = handle
        progress.attempt += 1
        if progress.step.timeout_minutes is not None:
            progress.deadline = time.monotonic() + progress.step.timeout_minutes * 60
        self._settle(progress, "running", reason, attempt=progress.attempt)

    def _mend(self, progress: Progress, given: str, damage: Damage) -> bool:
        """Have a damaged product made again: an input's own, or the one that the input stands on."""
        # Where no step makes what the input stands on, the input is of no use any more.
        damaged = self.board.maker(damage.key) or self.steps[given]
        if damaged.state in ("waiting", "running"):
            return False
        if damaged.state not in WELL:
            self._settle(progress, "blocked", f"{damaged.step.id} was {damaged.state}")
            return True
        aside = self.around.home.store.set_aside(damaged.key)
        self.made.pop(damaged.step.id, None)
        damaged.product = None
        where = f"; set aside as {aside.name}" if aside else ""
        self._settle(damaged, "waiting", f"its product was damaged ({damage.what}){where}")
        return True

    def _poll(self, progress: Progress) -> None:
        assert progress.handle is not None, "a running step has a handle"
        if self.around.stopping.level:
            self.around.runner.stop(progress.handle, now=self.around.stopping.level > 1)
        status = self.around.runner.poll(progress.handle)
        work = self.around.home.work(progress.key)
        latest = progress.latest(work)
        for warned in progress.warnings():
            self.around.watch(progress.step.id, "warning", warned)
        if status is None:
            if latest:
                self.around.watch(progress.step.id, "progress", latest)
            if progress.overdue():
                self.around.runner.stop(progress.handle, now=True)
                self._fail(progress, workplace.too_long(progress.step))
            return
        # One that was killed may have been done: what a signal cuts off after the receipt is not lost.
        receipt = workplace.finished(work, left=progress.left or status < 0) if status <= 0 else None
        if receipt is not None:
            self._commit(progress, receipt)
        elif status == STOPPED or self.around.stopping.level:
            self._release(progress)
            self._settle(progress, "interrupted", "stopped; it goes on from its last checkpoint")
        else:
            self._failed_attempt(progress, workplace.failure(work, status, progress.step))

    def _failed_attempt(self, progress: Progress, failure: dict[str, Any]) -> None:
        step = progress.step
        if not failure["retriable"] or progress.attempt >= step.attempts:
            self._fail(progress, failure)
            return
        pause = step.wait_seconds * 2 ** (progress.attempt - 1)
        progress.not_before = time.monotonic() + pause
        self._release(progress)
        self._settle(progress, "waiting", f"{failure['message']}; tried again in {pause:g} s")

    def _fail(self, progress: Progress, failure: dict[str, Any]) -> None:
        self._release(progress)
        if progress.step.on_failure == "stop":
            self.given_up.add(progress.step.leg)  # other legs of a matrix go on
        cost: dict[str, Any] = failure.get("cost", {})
        self._settle(progress, "failed", failure["message"], advice=failure["advice"], cost=cost)

    def _commit(self, progress: Progress, receipt: Mapping[str, Any]) -> None:
        home, key = self.around.home, progress.key
        progress.product = workplace.commit(home.work(key), progress.step, key, receipt, home.store)
        self._release(progress, for_good=True)
        self._settle(progress, "done", "", facts=dict(receipt["facts"]), cost=dict(receipt["cost"]))

    def _release(self, progress: Progress, *, for_good: bool = False) -> None:
        """Give the step's place and lock back; `for_good` when nobody will start it again."""
        self.slots.free(progress.step.id)
        if progress.lock is not None:
            (progress.lock.discard if for_good else progress.lock.release)()
            progress.lock = None

    def _settle(self, progress: Progress, state: str, reason: str, **known: Any) -> None:
        progress.state = state
        self.changed = time.monotonic()
        self.around.journal.note(progress.step.id, state, reason=reason, **known)
        self.around.watch(progress.step.id, state, {"reason": reason, **known})

    def _end_all(self) -> None:
        """Leave no process behind, however the run ends."""
        for progress in self.steps.values():
            if progress.state == "running" and progress.handle is not None:
                self.around.runner.stop(progress.handle, now=True)
                self._release(progress)

"""Executes a plan: starts the steps that are ready, monitors them, and commits the successful ones.

Datasets that need no product of a stage are built first, so that the schedules of the stages are checked
against the number of their rows before any stage starts (`data_first.py`).

A step is waiting until it is cached (its product is in the store), queued (a cluster has not started it
yet), running, done, failed, interrupted, held (a gate holds it back), blocked (a dependency did not finish)
or skipped (not selected, or in a branch of a gate that was not taken).
"""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import STOPPED, StepError, failure_record
from posttrain.runtime.execution.data_first import DataFirst
from posttrain.runtime.execution.product_checks import ProductChecks
from posttrain.runtime.execution.resource_pool import required_resources
from posttrain.runtime.execution.run_context import RunContext
from posttrain.runtime.execution.step_progress import (
    ACTIVE_STATES,
    SATISFIED_STATES,
    TERMINAL_STATES,
    StepDependencies,
    StepProgress,
)
from posttrain.runtime.preflight.finding import location_text
from posttrain.runtime.process_environment import log_unused_variables, resolve_secrets
from posttrain.runtime.runners.dispatch import StepHandle
from posttrain.runtime.secret_masking import mask_secrets
from posttrain.runtime.store import workdir
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.integrity import Damage
from posttrain.runtime.store.launch_record import cache_note
from posttrain.runtime.store.lock_claims import stale_claim
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import run_key
from posttrain.spec.plan import Plan
from posttrain.spec.step_records import Failure, Receipt

_POLL_SECONDS = 0.05  # the longest time between two polls


def execute(plan: Plan, context: RunContext) -> dict[str, str]:
    """Execute the plan and return the final state of each step."""
    return _Execution(plan, context).run()


class _Execution:
    def __init__(self, plan: Plan, context: RunContext) -> None:
        self.plan = plan
        self.context = context
        self.steps = {
            step.id: StepProgress(step, run_key(step, context.run_name), required_resources(step))
            for step in plan.steps
        }
        self.dependencies = StepDependencies(
            self.steps, context.selection.skipped if context.selection else frozenset()
        )
        self.products = ProductChecks(context.home.store, self.dependencies)
        self.resources = context.slots()
        self.data_first = DataFirst(plan, self.steps)
        self.failed_legs: set[str] = set()
        self.last_change = time.monotonic()
        # Whether the cluster does not answer.
        self.has_outage = False
        # The products in the store at the start of the run.
        self.existing: dict[str, Product] = {}

    def run(self) -> dict[str, str]:
        find = self.context.home.store.find
        self.existing = {id: cached for id, p in self.steps.items() if (cached := find(p.key)) is not None}
        self._skip_unselected()
        missing = [id for id, p in self.steps.items() if id not in self.existing and p.state == "waiting"]
        self._report_unusable(missing)
        self.context.runner.prepare(self.plan, missing, self.context.home.runs / self.context.run_name)
        try:
            while self._advance():
                # Poll often right after a change, so that short steps add little waiting time.
                time.sleep(min(_POLL_SECONDS, max(0.002, (time.monotonic() - self.last_change) / 10)))
        finally:
            self._stop_all()
            self.context.runner.close()
        return {id: progress.state for id, progress in self.steps.items()}

    def _report_unusable(self, missing: list[str]) -> None:
        """Say why products in the store are not used: damaged ones are built again, newer ones stay."""
        for progress in map(self.steps.__getitem__, missing):
            try:
                damage = self.products.damage_of_unused(progress.key)
            except StepError as error:
                self._fail(progress, failure_record(error))
                continue
            if damage is not None:
                self._set_state(progress, "waiting", f"its product is damaged ({damage})")

    def _skip_unselected(self) -> None:
        """Skip the steps outside the selection. Steps that read them use their earlier products."""
        selection = self.context.selection
        for id, progress in self.steps.items():
            if selection is not None and id not in selection.steps:
                progress.product = self.existing.get(id)
                reason = "excluded with --skip" if id in selection.skipped else "not selected"
                self._set_state(progress, "skipped", reason)

    def _advance(self) -> bool:
        """Process all steps once; false when every step is in a terminal state."""
        active = [p for p in self.steps.values() if p.state in ACTIVE_STATES]
        self._report_outage(active)
        for progress in active:
            self._poll(progress)
        changed = True
        while changed:
            changed = self._fail_wrong_schedules()
            for progress in self.steps.values():
                if progress.state == "waiting":
                    changed = self._try_schedule(progress) or changed
        self.context.journal.flush()
        return any(p.state not in TERMINAL_STATES for p in self.steps.values())

    def _report_outage(self, active: list[StepProgress]) -> None:
        """Warn once when a cluster does not answer: its steps seem to run for ever."""
        outage = self.context.runner.outage()
        if outage is not None and not self.has_outage:
            for progress in active:
                self.context.on_state_change(progress.step.id, "warning", {"reason": outage})
        self.has_outage = outage is not None

    def _fail_wrong_schedules(self) -> bool:
        """Fail the waiting stages whose data has too few rows, together; true when there are any."""
        findings = self.data_first.wrong_schedules(self.existing)
        for one in findings:
            failure = StepError(f"{one.cause} ({location_text(one.place)})", one.advice)
            self._fail(self.steps[one.steps[0]], failure_record(failure))
        return bool(findings)

    def _try_schedule(self, progress: StepProgress) -> bool:
        """Start a waiting step, or set its final state without a start; true when its state changed."""
        step = progress.step
        cached = self.existing.get(step.id)
        verdict = self.dependencies.blocking_state(step, is_cached=cached is not None)
        if cached is None and self.failed_legs & {"", step.leg}:
            verdict = verdict or ("blocked", "an earlier step failed")
        if verdict is not None:
            progress.branch_skipped = verdict[0] == "skipped"
            self._set_state(progress, *verdict)
            return True
        if not self.dependencies.is_ready(step, is_cached=cached is not None):
            return False
        if cached is not None:
            self._use_cached(progress, cached)
            return True
        if self.context.stop_request.level:
            self._set_state(progress, "interrupted", "the run was stopped before this step started")
            return True
        if not self.data_first.may_start(step):
            return False
        if time.monotonic() < progress.not_before:
            return False
        return self._start(progress)

    def _use_cached(self, progress: StepProgress, cached: Product) -> None:
        progress.product = cached
        self.context.on_product(progress.step, cached)
        reason = cache_note(cached, progress.step)
        self._set_state(progress, "cached", reason, facts=dict(cached.facts), cost=dict(cached.cost))

    def _start(self, progress: StepProgress) -> bool:
        """Start a step if no other client runs it and resources are free; true when its state changed."""
        step = progress.step
        if (unmet := self.resources.unmet_requirement(step)) is not None:
            self._fail(progress, failure_record(StepError(unmet.cause, unmet.advice)))
            return True
        if not self.resources.has_room(progress.required):
            return False
        is_over = partial(self.context.runner.has_no_job, self.context.home.workdir(progress.key), step)
        progress.lock = try_lock(self.context.home.step_lock(progress.key), is_over)
        if progress.lock is None:
            self._report_stale_claim(progress)
            return False  # another client runs it: its product will appear in the store
        changed = self._start_locked(progress)
        if progress.state not in ACTIVE_STATES:
            self._release(progress)
        return changed

    def _report_stale_claim(self, progress: StepProgress) -> None:
        """Warn once when another machine has the lock of a step and may be gone."""
        if progress.has_stale_claim:
            return
        reason = stale_claim(self.context.home.step_lock(progress.key))
        if reason is not None:
            progress.has_stale_claim = True
            self.context.on_state_change(progress.step.id, "warning", {"reason": reason})

    def _start_locked(self, progress: StepProgress) -> bool:
        self.context.journal.flush()  # before the digest check of the inputs, which can take long
        cached = self.context.home.store.find(progress.key)
        if cached is not None:
            self.existing[progress.step.id] = cached
            self._release(progress, discard_lock=True)
            return True
        if self.resources.allocate(progress.step.id, progress.required) is None:
            return False
        work = self.context.home.workdir(progress.key)
        handle = self.context.runner.attach(work, progress.step)
        if handle is not None:
            progress.inherited = True
            self._mark_started(progress, handle)
            return True
        receipt = workdir.load_receipt(work, check_digests=True)
        if receipt is not None:
            self._commit(progress, receipt)
            return True
        return self._launch(progress, work)

    def _launch(self, progress: StepProgress, work: Path) -> bool:
        step = progress.step
        inputs: dict[str, Path] = {}
        for role, source in step.inputs.items():
            product = self.steps[source.step].product
            assert product is not None, f"{source.step} is finished without a product"
            damage = self.products.input_damage(step, product)
            if damage is not None:
                return self._rebuild_damaged(progress, source.step, damage)
            inputs[role] = product.files / source.output if source.output else product.files
        try:
            workdir.prepare(work, step, inputs, self.context.recipe_dir)
        except StepError as error:
            self._fail(progress, failure_record(error))
            return True
        assert progress.lock is not None, "the lock is taken before the launch"
        secrets = resolve_secrets(step.secrets, os.environ)
        log_unused_variables(step, work, os.environ)
        gpus = self.resources.gpus(step.id)
        progress.inherited = False
        progress.skip_past_events(work)
        handle = self.context.runner.start(work, step, secrets, progress.lock.descriptor, gpus)
        self._mark_started(progress, handle)
        return True

    def _mark_started(self, progress: StepProgress, handle: StepHandle) -> None:
        progress.handle = handle
        progress.attempt += 1
        progress.deadline = None
        self._follow_queue(progress, handle)

    def _follow_queue(self, progress: StepProgress, handle: StepHandle) -> None:
        """Set the state of an active step: queued, with the reason of the engine, or running."""
        queued = self.context.runner.queue_reason(handle)
        if queued is not None:
            if (progress.state, progress.queue_reason) != ("queued", queued):
                progress.queue_reason = queued
                self._set_state(progress, "queued", queued, attempt=progress.attempt)
        elif progress.state != "running":
            if progress.step.timeout_minutes is not None:  # the time in the queue does not count
                progress.deadline = time.monotonic() + progress.step.timeout_minutes * 60
            reason = "reattached: an earlier client started it" if progress.inherited else ""
            self._set_state(progress, "running", reason, attempt=progress.attempt)

    def _rebuild_damaged(self, progress: StepProgress, source: str, damage: Damage) -> bool:
        """Rebuild a damaged product: that of an input, or the one that the input depends on."""
        # When no step creates the product that the input depends on, rebuild the input itself.
        damaged = self.dependencies.step_for_key(damage.key) or self.steps[source]
        if self.products.is_under_way(damaged.key):
            return False
        if damaged.state not in SATISFIED_STATES:
            self._set_state(progress, "blocked", f"{damaged.step.id} was {damaged.state}")
            return True
        quarantined = self.context.home.store.quarantine(damaged.key)
        self.existing.pop(damaged.step.id, None)
        damaged.product = None
        where = f"; quarantined as {quarantined.name}" if quarantined else ""
        self._set_state(damaged, "waiting", f"its product is damaged ({damage.reason}){where}")
        return True

    def _poll(self, progress: StepProgress) -> None:
        assert progress.handle is not None, "a running step has a handle"
        if self.context.stop_request.level:
            self.context.runner.stop(progress.handle, now=self.context.stop_request.level > 1)
        status = self.context.runner.poll(progress.handle)
        work = self.context.home.workdir(progress.key)
        latest = progress.read_progress(work)
        for warned in progress.warnings():
            self.context.on_state_change(progress.step.id, "warning", warned)
        if latest:  # also of a step that has ended: these are its final figures
            self.context.on_state_change(progress.step.id, "progress", latest)
        if status is None:
            self._follow_queue(progress, progress.handle)
            if progress.is_timed_out():
                self.context.runner.stop(progress.handle, now=True)
                self._fail(progress, workdir.timeout_failure(progress.step))
            return
        mask_secrets(work, resolve_secrets(progress.step.secrets, os.environ).values())
        # A killed step can have finished: a receipt counts even when a signal ended the process after it.
        unwatched = progress.inherited or status < 0
        receipt = workdir.load_receipt(work, check_digests=unwatched) if status <= 0 else None
        if receipt is not None:
            self._commit(progress, receipt)
        elif status == STOPPED or self.context.stop_request.level:
            self._release(progress)
            self._set_state(progress, "interrupted", "stopped; the next run resumes from its last checkpoint")
        else:
            self._retry_or_fail(progress, workdir.read_failure(work, status, progress.step))

    def _retry_or_fail(self, progress: StepProgress, failure: Failure) -> None:
        step = progress.step
        if not failure.retriable or progress.attempt >= step.attempts:
            self._fail(progress, failure)
            return
        pause = step.wait_seconds * 2 ** (progress.attempt - 1)
        progress.not_before = time.monotonic() + pause
        self._release(progress)
        self._set_state(progress, "waiting", f"{failure.message}; retrying in {pause:g} s")

    def _fail(self, progress: StepProgress, failure: Failure) -> None:
        self._release(progress)
        if progress.step.on_failure == "stop":
            self.failed_legs.add(progress.step.leg)  # other legs of a matrix continue
        if failure.details:
            self.context.on_state_change(progress.step.id, "details", {"text": failure.details})
        self._set_state(progress, "failed", failure.message, advice=failure.advice, cost=dict(failure.cost))

    def _commit(self, progress: StepProgress, receipt: Receipt) -> None:
        home, key = self.context.home, progress.key
        progress.product = workdir.commit(home.workdir(key), progress.step, key, receipt, home.store)
        self.context.on_product(progress.step, progress.product)
        self._release(progress, discard_lock=True)
        self._set_state(progress, "done", "", facts=dict(receipt.facts), cost=dict(receipt.cost))

    def _release(self, progress: StepProgress, *, discard_lock: bool = False) -> None:
        """Release the resources and the lock of a step; `discard_lock` also removes the lock file."""
        self.resources.release(progress.step.id)
        if progress.lock is not None:
            (progress.lock.discard if discard_lock else progress.lock.release)()
            progress.lock = None

    def _set_state(self, progress: StepProgress, state: str, reason: str, **known: Any) -> None:
        progress.state = state
        self.last_change = time.monotonic()
        self.context.journal.update_step(progress.step.id, state, reason=reason, **known)
        self.context.on_state_change(progress.step.id, state, {"reason": reason, **known})

    def _stop_all(self) -> None:
        """Kill the steps that still run, so that no process survives the run."""
        for progress in self.steps.values():
            if progress.state in ACTIVE_STATES and progress.handle is not None:
                self.context.runner.stop(progress.handle, now=True)
                self._release(progress)

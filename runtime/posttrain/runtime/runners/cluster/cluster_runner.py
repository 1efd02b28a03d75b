"""Runs the steps of a plan as jobs of a cluster.

A job outlives its client. The next client finds the attempt of the step (`attempt_files.py`) and its job,
by a name that is derived from the home and the key. Whether a step succeeded is decided by its receipt;
when it ended, by a file of the program on the node. The engine is asked only whether a job still exists.
"""

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from posttrain.runtime.errors import FAILED, STOPPED, StepError
from posttrain.runtime.process_environment import travelling_variables
from posttrain.runtime.runners.cluster.attempt_files import (
    WITHDRAWN,
    AttemptFiles,
    begin_attempt,
    current_attempt,
    forget_attempt,
    has_live_job,
    new_token,
)
from posttrain.runtime.runners.cluster.job_handle import JobHandle, node_monitor, start_error
from posttrain.runtime.runners.cluster.job_monitor import JobMonitor, JobSnapshot
from posttrain.runtime.runners.cluster.job_specs import JobSpecs, home_for, output_file
from posttrain.runtime.runners.cluster.node_monitor import AvoidedNodes
from posttrain.runtime.runners.cluster.node_pool import pool_of
from posttrain.runtime.runners.cluster.pool_jobs import PoolJobs
from posttrain.runtime.runners.cluster.scheduler import JobState, Scheduler, describe_queue
from posttrain.runtime.runners.exit_status import write_failure
from posttrain.runtime.runners.process import heavy_imports
from posttrain.spec.place import Place
from posttrain.spec.plan import Plan, Step
from posttrain.spec.step_records import ClusterAttempt, ClusterEnd
from posttrain.spec.version import VERSION

_KILLED = -9
# What a shared file system has to show the files of a job that is over.
_VISIBLE_SECONDS = 3.0
_END_SECONDS = 15.0  # of a killed job
_MAX_REFILLS = 3
_OUTAGE_SECONDS = 10.0  # after which a user hears of it
_ADVICE = "correct the place, or `hardware` and `placement` of the recipe"
_CANCELLED = ("CANCELLED", "PREEMPTED")
# In these states the engine has sent SIGTERM to every process of the job, also to those that a step starts
# and whose end it takes for a result: its receipt proves nothing.
_STOPPED_BY_ENGINE = (*_CANCELLED, "TIMEOUT", "DEADLINE")


class ClusterRunner:
    """Starts, polls and stops jobs."""

    def __init__(self, place: Place, scheduler: Scheduler) -> None:
        self._place = place
        self._scheduler = scheduler
        self.monitor = JobMonitor(scheduler)
        self._specs = JobSpecs(place)
        self._preload: tuple[str, ...] = ()
        self._pools: dict[str, PoolJobs] = {}
        self._creating_pool = threading.Lock()
        self._avoided = AvoidedNodes()

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        """Connect to the engine. A pool imports what the steps of this run need."""
        steps = [step for step in plan.steps if step.id in ids]
        self._preload = tuple(dict.fromkeys(module for step in steps for module in heavy_imports(step)))
        if steps:
            self._scheduler.open()

    def attach(self, work: Path, step: Step) -> JobHandle | None:
        """Reattach to the attempt of an earlier client, if it has a result or a job that will have one."""
        attempt = current_attempt(work)
        if attempt is None:
            return None
        files = AttemptFiles(work, attempt.token)
        handle = JobHandle(step, files, attempt.job_name, attempt.pool, nodes=node_monitor(step, files))
        ended = files.ended()
        if ended is not None and (ended.status == 0 or (work / "failure.json").exists()):
            return handle
        if ended is None and self._may_have_job(handle):
            return handle
        forget_attempt(work)
        return None

    def has_no_job(self, work: Path) -> bool:
        """Whether the engine says so. It is not asked while it does not answer."""
        snapshot = self.monitor.latest()
        is_known = snapshot is not None and time.monotonic() - snapshot.began < _VISIBLE_SECONDS
        return snapshot is not None and is_known and not has_live_job(work, snapshot.jobs)

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> JobHandle:
        """Submit the step, without blocking others. The engine selects its GPUs."""
        pool = self._specs.pool_name(step)
        spec = self._specs.pool_job(work, pool, step) if pool else self._specs.step_job(work, step)
        attempt = ClusterAttempt(
            token=new_token(),
            job_name=spec.name,
            pool=pool,
            release=VERSION,
            variables=travelling_variables(step, os.environ),
            secrets=bool(secrets),
            preload=self._preload if pool else (),
        )
        files = begin_attempt(work, attempt, secrets)
        handle = JobHandle(step, files, spec.name, pool, nodes=node_monitor(step, files))
        # A copy: the client can release the lock before the engine has the job.
        handle.submitting = threading.Thread(target=self._submit, args=(handle, os.dup(lock)), daemon=True)
        handle.submitting.start()
        return handle

    def poll(self, handle: JobHandle) -> int | None:
        """The exit status, negative for a signal; None while it waits or runs."""
        if handle.status is not None or (handle.submitting and handle.submitting.is_alive()):
            return handle.status
        ended = handle.files.ended()
        if ended is not None:
            self._conclude(handle, ended)
        elif handle.nodes is not None and (loss := handle.nodes.loss()) is not None:
            self._fail(handle, loss)
        else:
            snapshot = self.monitor.latest()
            if snapshot is not None and snapshot.began > handle.since:
                self._check_job(handle, snapshot)
        return handle.status

    def queue_reason(self, handle: JobHandle) -> str | None:
        if handle.has_begun or handle.status is not None or handle.files.claimed_by() is not None:
            handle.has_begun = True
            return None
        if self.monitor.error is not None:
            return str(self.monitor.error)
        snapshot = self.monitor.last
        job = None if snapshot is None else self._find_job(handle, snapshot)
        return "" if job is None else describe_queue(self._scheduler.name, job)

    def outage(self) -> str | None:
        if self.monitor.failing_seconds < _OUTAGE_SECONDS or self.monitor.error is None:
            return None
        return f"{self.monitor.error}; the run waits until {self._scheduler.name} answers"

    def stop(self, handle: JobHandle, *, now: bool = False) -> None:
        """Request the step to save its state and exit; with `now`, kill it."""
        if handle.submitting and handle.submitting.is_alive():
            if not now:
                return
            handle.submitting.join(_END_SECONDS)
        if self.poll(handle) is not None or (handle.stop_requested and not now):
            return
        handle.stop_requested = True
        claim = handle.files.claimed_by()
        if claim is None and handle.files.claim(WITHDRAWN, ""):  # no job can run it any more
            if handle.job is not None:
                self._scheduler.kill(handle.job)
            self._finish(handle, STOPPED)
        elif now:
            self._kill(handle)
        elif handle.pool is not None or handle.nodes is not None:
            handle.files.request_stop(now=False)  # a signal would end srun, and with it the job
        elif (job := self._job_id(handle)) is not None:
            self._scheduler.terminate(job)

    def close(self) -> None:
        """End the connection. Jobs of pools that did not start yet have nothing to do."""
        for jobs in self._pools.values():
            for job in jobs.unstarted(self.monitor.last):
                self._scheduler.cancel_pending(job)
        self.monitor.close()
        self._scheduler.close()

    def _submit(self, handle: JobHandle, lock: int) -> None:
        try:
            if handle.pool is None:
                spec = self._specs.step_job(handle.files.work, handle.step)
                handle.job = self._scheduler.submit(self._avoided.exclude(spec, self._scheduler), lock)
            else:
                jobs = self._pool_jobs(handle, handle.pool)
                jobs.pool.offer(handle.files)
                jobs.fill(self.monitor.latest() or self.monitor.fresh(), lock)
        except StepError as error:
            self._fail(handle, error)
        except BaseException as error:
            self._fail(handle, StepError(f"the job was not submitted: {error}", "run again"))
            raise
        finally:
            os.close(lock)
            handle.since = time.monotonic()

    def _pool_jobs(self, handle: JobHandle, pool: str) -> PoolJobs:
        with self._creating_pool:
            if pool not in self._pools:
                spec = self._specs.pool_job(handle.files.work, pool, handle.step)
                folder = pool_of(home_for(handle.files.work), pool)
                self._pools[pool] = PoolJobs(folder, self._scheduler, spec, self._place.max_nodes)
            return self._pools[pool]

    def _may_have_job(self, handle: JobHandle) -> bool:
        """Whether a job of the attempt waits or runs. If the engine does not answer, the polls find out."""
        try:
            snapshot = self.monitor.fresh()
        except StepError:
            return True
        return has_live_job(handle.files.work, snapshot.jobs)

    def _check_job(self, handle: JobHandle, snapshot: JobSnapshot) -> None:
        """Conclude a step whose job is over without a result, or can never start."""
        claim, job = handle.files.claimed_by(), self._find_job(handle, snapshot)
        if job is not None and job.infeasible and claim is None:
            self._scheduler.kill(job.id)
            self._fail(
                handle, StepError(f"{self._scheduler.name} never starts the job: {job.reason}", _ADVICE)
            )
        elif job is not None and job.phase != "over":
            handle.over_since = None
        elif claim is None and handle.pool is not None:
            self._refill(handle, handle.pool, snapshot)
        else:
            handle.over_since = handle.over_since or time.monotonic()
            if time.monotonic() - handle.over_since > _VISIBLE_SECONDS:
                self._conclude_lost(handle, job)

    def _refill(self, handle: JobHandle, pool: str, snapshot: JobSnapshot) -> None:
        """Submit another job for an offer that no job of the pool has taken."""
        jobs = self._pool_jobs(handle, pool)
        if handle.refills == _MAX_REFILLS:
            self._fail(
                handle, start_error(jobs.spec.output, "the jobs of its pool", retriable=bool(self._avoided))
            )
            return
        try:
            handle.refills += jobs.fill(snapshot)
        except StepError as error:
            self._fail(handle, error)

    def _find_job(self, handle: JobHandle, snapshot: JobSnapshot) -> JobState | None:
        id = self._job_id(handle)
        if id is not None:
            return snapshot.find(id)
        named = [job for job in snapshot.jobs if job.name == handle.job_name]
        return next((job for job in named if job.phase != "over"), None)

    def _job_id(self, handle: JobHandle) -> str | None:
        claim = handle.files.claimed_by()
        return handle.job if claim is None else claim.job

    def _conclude(self, handle: JobHandle, ended: ClusterEnd) -> None:
        """Conclude a step whose program on the node reported the end."""
        if handle.stop_requested or not ended.terminated:
            self._finish(handle, ended.status)
            return
        # Somebody else stopped the job: the engine says why as soon as it is over.
        handle.over_since = handle.over_since or time.monotonic()
        snapshot, job = self.monitor.latest(), None
        if snapshot is not None and snapshot.began > handle.over_since:
            job = self._find_job(handle, snapshot)
        over = job if job is not None and job.phase == "over" else None
        if over is not None and ended.status == 0 and over.state not in _STOPPED_BY_ENGINE:
            self._finish(handle, ended.status)
        elif over is not None or time.monotonic() - handle.over_since > _VISIBLE_SECONDS:
            (handle.files.work / "receipt.json").unlink(missing_ok=True)
            self._fail(handle, self._explain_end(handle, job, terminated=True))

    def _conclude_lost(self, handle: JobHandle, job: JobState | None) -> None:
        if handle.files.claimed_by() is None:
            if handle.files.claim(WITHDRAWN, ""):
                error = self._explain_end(handle, job)
                if not job or job.state not in _CANCELLED:
                    error = start_error(
                        output_file(handle.files.work), "its job", retriable=bool(self._avoided)
                    )
                self._fail(handle, error)
            return
        if job is not None and job.state in _STOPPED_BY_ENGINE:
            (handle.files.work / "receipt.json").unlink(missing_ok=True)
        write_failure(handle.files.work, self._explain_end(handle, job))
        self._finish(handle, _KILLED)  # a receipt counts all the same

    def _explain_end(self, handle: JobHandle, job: JobState | None, *, terminated: bool = False) -> StepError:
        unknown = JobState(id=self._job_id(handle) or "?", name=handle.job_name, phase="over")
        return self._scheduler.explain_end(job or unknown, terminated=terminated)

    def _kill(self, handle: JobHandle) -> None:
        job = self._job_id(handle)
        if handle.pool is not None:
            handle.files.request_stop(now=True)
            job = None if self._ends(handle) else job
        forget_attempt(handle.files.work)  # what survives stops by itself
        if job is not None:
            self._scheduler.kill(job)
            self._await_end(job)
        handle.status = _KILLED

    def _ends(self, handle: JobHandle) -> bool:
        deadline = time.monotonic() + _END_SECONDS
        while handle.files.ended() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return handle.files.ended() is not None

    def _await_end(self, id: str) -> None:
        """Wait until a killed job is over, so that nothing writes into the folder of the step."""
        deadline = time.monotonic() + _END_SECONDS
        with contextlib.suppress(StepError):
            while time.monotonic() < deadline:
                job = self.monitor.fresh().find(id)
                if job is None or job.phase == "over":
                    return

    def _fail(self, handle: JobHandle, error: StepError) -> None:
        write_failure(handle.files.work, error)
        self._finish(handle, FAILED)

    def _finish(self, handle: JobHandle, status: int) -> None:
        forget_attempt(handle.files.work)
        if handle.nodes is not None and status != 0:
            self._avoided.add(handle.nodes.silent_nodes())
            # The engine can wait for a lost node for ever.
            if (job := self._job_id(handle)) is not None and job != WITHDRAWN:
                self._scheduler.kill(job)
        handle.status = status

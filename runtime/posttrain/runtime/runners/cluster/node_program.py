"""The program of a job on its node: runs one step, or the steps of a pool in turn.

    python -m posttrain.runtime.runners.cluster.node_program step WORK
    python -m posttrain.runtime.runners.cluster.node_program serve POOL IDLE_SECONDS

With `serve`, a forkserver keeps the imports between steps. The program ends when no step came for that time.
SIGTERM asks the running step to save its state and stop. A program whose attempt is not the current one any
more (`attempt_files.py`) kills its worker and writes nothing.
"""

import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from posttrain.runtime.errors import FAILED, STOPPED, StepError, failure_record
from posttrain.runtime.installed_stack import stack_mismatches
from posttrain.runtime.plan_params import read_step
from posttrain.runtime.process_tree import die_with_parent
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles, current_attempt
from posttrain.runtime.runners.cluster.node_pool import NodePool, Offer
from posttrain.runtime.runners.process import ProcessHandle, ProcessRunner, heavy_imports
from posttrain.runtime.store.document_files import write_document
from posttrain.spec.plan import Step
from posttrain.spec.step_records import ClusterAttempt
from posttrain.spec.version import VERSION

# Of the program that a Ray actor starts.
JOB_VARIABLE, PARENT_VARIABLE = "POSTTRAIN_CLUSTER_JOB", "POSTTRAIN_CLUSTER_PARENT"
_POLL_SECONDS = 0.02
_FENCE_SECONDS = 1.0  # the time after which a program notices that its attempt is void
_STOP_SECONDS = 0.2


def _nothing() -> None:
    """The step has its own job, which ends with it."""


class NodeProgram:
    """Runs steps on this node, one after the other."""

    def __init__(self, forkserver_log: Path | None = None) -> None:
        """With a log, a forkserver keeps the imports between steps."""
        self._runner = ProcessRunner(use_forkserver=forkserver_log is not None)
        self._forkserver_log = forkserver_log
        self._job = os.environ.get(JOB_VARIABLE) or os.environ.get("SLURM_JOB_ID", "")
        self._own_variables = {
            name: value for name, value in os.environ.items() if name not in (JOB_VARIABLE, PARENT_VARIABLE)
        }
        self._terminated = False

    def terminate(self, *_signal: object) -> None:
        self._terminated = True

    def run_step(
        self, work: Path, on_claim: Callable[[], None] = _nothing, on_end: Callable[[], None] = _nothing
    ) -> bool:
        """Run the current attempt of a step; false if there is none, or another job has it."""
        attempt = current_attempt(work)
        if attempt is None:
            print(f"nothing to run in {work}: only `recipe run` prepares a step for its job", flush=True)
            return False
        files = AttemptFiles(work, attempt.token)
        if not files.claim(self._job, platform.node()):
            return False
        on_claim()
        status = self._run_claimed(work, attempt, files)
        on_end()  # before a client sees the end and offers the next step
        if status is not None:
            files.end(status, terminated=self._terminated)
        return True

    def serve(self, pool: NodePool, idle_seconds: float) -> None:
        """Run the steps that clients offer, until none came for some time."""
        deadline = time.monotonic() + idle_seconds
        while not self._terminated:
            offer = pool.next_offer()
            if offer is not None and self._serve_one(pool, offer):
                deadline = time.monotonic() + idle_seconds
            elif time.monotonic() > deadline:
                return
            else:
                time.sleep(_POLL_SECONDS)

    def _serve_one(self, pool: NodePool, offer: Offer) -> bool:
        def begin() -> None:
            offer.withdraw()
            pool.mark_busy(self._job)

        return self.run_step(offer.attempt.work, begin, lambda: pool.mark_free(self._job))

    def close(self) -> None:
        self._runner.close()

    def _run_claimed(self, work: Path, attempt: ClusterAttempt, files: AttemptFiles) -> int | None:
        """The exit status; None for an attempt that became void."""
        secrets = files.take_secrets() if attempt.secrets else {}
        try:
            step = read_step(work / "record" / "step.json")
            check_stack(step, attempt.release)
        except StepError as error:
            write_document(work / "failure.json", failure_record(error))
            return FAILED
        if self._is_void(attempt, files):  # it may have been frozen: another attempt has the folder
            return None
        if self._terminated:
            return STOPPED
        os.environ.clear()
        os.environ.update({**self._own_variables, **attempt.variables})
        for name in ("receipt.json", "failure.json"):
            (work / name).unlink(missing_ok=True)
        if self._forkserver_log is not None:
            self._runner.preload((*heavy_imports(step), *attempt.preload), self._forkserver_log)
        claim = os.open(files.folder / "claim.json", os.O_RDONLY)
        try:
            return self._follow(self._runner.start(work, step, secrets, claim), attempt, files)
        finally:
            os.close(claim)

    def _follow(self, handle: ProcessHandle, attempt: ClusterAttempt, files: AttemptFiles) -> int | None:
        began = checked = fenced = time.monotonic()
        requested = ""
        while (status := self._runner.poll(handle)) is None:
            now = time.monotonic()
            if now - checked > _STOP_SECONDS:
                checked = now
                wanted = files.stop_requested() or ("save" if self._terminated else "")
                if wanted and wanted != requested:
                    self._runner.stop(handle, now=wanted == "now")
                    requested = wanted
            if now - fenced > _FENCE_SECONDS:
                fenced = now
                if self._is_void(attempt, files):
                    self._runner.stop(handle, now=True)
                    return None
            time.sleep(min(_POLL_SECONDS, max(0.002, (now - began) / 10)))
        return status

    def _is_void(self, attempt: ClusterAttempt, files: AttemptFiles) -> bool:
        """Whether another attempt has begun, or the step was given up."""
        current = current_attempt(files.work)
        return current is None or current.token != attempt.token


def check_stack(step: Step, release: str) -> None:
    """Raise StepError if this node does not have the versions that the plan was made for."""
    planned = step.key_values.get("environment")
    versions = dict(planned) if step.image is None and isinstance(planned, Mapping) else {}
    found = stack_mismatches({name: str(version) for name, version in versions.items()})
    if release != VERSION:
        found.insert(0, ("posttrain", release, VERSION))
    if found:
        text = ", ".join(f"{name} {installed} (planned: {wanted})" for name, wanted, installed in found)
        raise StepError(
            f"{sys.executable} on {platform.node()} has other versions than the plan: {text}",
            "install the planned versions there, set `python` of the place, or make the plan with that"
            " Python",
        )


def enter_home(folder: Path) -> None:
    """Make the home of a folder the current one: engines start jobs in different folders."""
    if not folder.is_dir():
        print(
            f"{platform.node()} has no {folder}: the home must be on a disk that all nodes share", flush=True
        )
        raise SystemExit(FAILED)
    os.chdir(folder.parent.parent)


def main(arguments: list[str]) -> None:
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is not None:
        die_with_parent(int(parent), signal.SIGKILL)
    mode, folder = arguments[0], Path(arguments[1])
    enter_home(folder)
    log = folder / f"forkserver-{platform.node()}-{os.getpid()}.log" if mode == "serve" else None
    program = NodeProgram(log)
    signal.signal(signal.SIGTERM, program.terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if mode == "serve":
            program.serve(NodePool(folder), float(arguments[2]))
        else:
            program.run_step(folder)
    finally:
        program.close()
        if log is not None:
            log.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])

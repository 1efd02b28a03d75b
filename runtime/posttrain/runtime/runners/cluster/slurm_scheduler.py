"""Slurm through its command line: sbatch, squeue and scancel."""

import contextlib
import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.scheduler import JobPhase, JobSpec, JobState, SchedulerError
from posttrain.runtime.runners.cluster.slurm_script import batch_script
from posttrain.spec.extension import Runner
from posttrain.spec.place import SlurmPlace

EXTENSION = Runner(name="slurm", summary="A job of a Slurm cluster.")
_SECONDS = 30.0  # of one call; sbatch itself repeats a request that the controller does not answer
_RESUMES = "run again: the step resumes from its last checkpoint"
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_PENDING = frozenset(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"))
_RUNNING = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"))
# Reasons for which a pending job waits for ever. Slurm adds others that end in PerJob or PerJobLimit.
_NEVER = frozenset(
    [
        "AccountNotAllowed",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSNotAllowed",
    ]
)
_UNREACHABLE = re.compile(
    r"unable to contact|connect failure|connection refused|timed out|zero bytes", re.IGNORECASE
)


class SlurmScheduler:
    """Submits jobs and reads their states."""

    name = "Slurm"

    def __init__(self, place: SlurmPlace) -> None:
        self._place = place

    def open(self) -> None:
        """Slurm needs no connection."""

    def submit(self, job: JobSpec, lock: int | None = None) -> str:
        output = self._call(
            ["sbatch", "--parsable"], batch_script(job, self._place), () if lock is None else (lock,)
        )
        return output.strip().partition(";")[0]

    def jobs(self) -> Sequence[JobState]:
        columns = "%i|%j|%T|%r|%N"
        listed = self._call(["squeue", "--me", "--noheader", "--states=all", f"--format={columns}"])
        return [_job_state(line) for line in listed.splitlines() if line.count("|") == 4]

    def nodes(self) -> Sequence[str]:
        partition = [f"--partition={self._place.partition}"] if self._place.partition else []
        states = "idle,mixed,allocated"
        listed = self._call(
            ["sinfo", "--noheader", "--Node", f"--states={states}", "--format=%N", *partition]
        )
        return list(dict.fromkeys(listed.split()))

    def rejection(self, job: JobSpec) -> str | None:
        try:
            self._call(["sbatch", "--test-only"], batch_script(job, self._place))
        except SchedulerError as error:
            if error.retriable:
                raise
            return str(error)
        return None

    def cancel_pending(self, id: str) -> None:
        self._signal("--state=PENDING", id)

    def terminate(self, id: str) -> None:
        self._signal("--batch", "--signal=TERM", id)

    def kill(self, id: str) -> None:
        self._signal("--full", "--signal=KILL", id)
        self._signal(id)

    def explain_end(self, job: JobState, *, terminated: bool = False) -> StepError:
        what = f"the Slurm job {job.id} of the step"
        match job.state:
            case "CANCELLED":
                return StepError(f"{what} was cancelled, not by this run", _RESUMES, retriable=True)
            case "PREEMPTED":
                return StepError(f"{what} was preempted", _RESUMES, retriable=True)
            case "NODE_FAIL" | "BOOT_FAIL":
                return StepError(
                    f"{what} ended because its node {job.nodes} failed", _RESUMES, retriable=True
                )
            case "TIMEOUT" | "DEADLINE":
                advice = f"raise `time_limit` of the place; {_RESUMES}"
                return StepError(f"{what} reached its time limit", advice, retriable=True)
            case "OUT_OF_MEMORY":
                advice = "lower micro_batch_size, or raise memory_gb of the stage or of the place"
                return StepError(f"{what} used more memory than it requested", advice)
            case _ if terminated:
                cause = (
                    "received SIGTERM, not by this run: it was cancelled, preempted, or near its time limit"
                )
                return StepError(f"{what} {cause}", _RESUMES, retriable=True)
            case _:
                state = f" ({job.state})" if job.state else ""
                return StepError(
                    f"{what} ended without a result{state}", "see `recipe logs STAGE`", retriable=True
                )

    def close(self) -> None:
        """Slurm needs no connection."""

    def _signal(self, *arguments: str) -> None:
        # The job has just ended.
        with contextlib.suppress(SchedulerError):
            self._call(["scancel", "--quiet", *arguments])

    def _call(self, command: Sequence[str], text: str | None = None, descriptors: Sequence[int] = ()) -> str:
        program = shutil.which(command[0])
        if program is None:
            raise SchedulerError(
                f"this machine has no `{command[0]}`",
                "run this on a machine from which jobs can be submitted",
            )
        try:
            done = subprocess.run(
                [program, *command[1:]],
                input=text or "",
                capture_output=True,
                text=True,
                check=False,
                env=_client_environment(Path(program).parent),
                pass_fds=tuple(descriptors),
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise SchedulerError(
                f"`{command[0]}` did not answer within {_SECONDS:g} s", "see `sinfo`", retriable=True
            ) from None
        if done.returncode:
            raise _call_error(command[0], done.stderr)
        return done.stdout


def _client_environment(programs: Path) -> dict[str, str]:
    """The variables of the commands, and so of the job: nothing of the client but what Slurm needs."""
    found = {"PATH": f"{programs}:{_PATH}", "LANG": "C.UTF-8", "HOME": str(Path.home())}
    with contextlib.suppress(KeyError, OSError):  # the uid has no name
        found |= dict.fromkeys(("USER", "LOGNAME"), getpass.getuser())
    return found | {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}


def _job_state(line: str) -> JobState:
    id, name, state, reason, nodes = line.split("|")
    phase: JobPhase = "pending" if state in _PENDING else "running" if state in _RUNNING else "over"
    infeasible = phase == "pending" and (reason in _NEVER or reason.endswith(("PerJob", "PerJobLimit")))
    return JobState(
        id=id, name=name, phase=phase, state=state, reason=reason, nodes=nodes, infeasible=infeasible
    )


def _call_error(program: str, output: str) -> SchedulerError:
    lines = [line.removeprefix(f"{program}: ") for line in output.splitlines() if line.strip()]
    lines = [line.removeprefix("error: ") for line in lines if not line.startswith('Try "')]
    text = lines[-1] if lines else "no output"
    if _UNREACHABLE.search(output):
        return SchedulerError(f"Slurm does not answer: {text}", "see `sinfo`, and run again", retriable=True)
    advice = "correct the place, or `hardware` and `placement` of the recipe"
    return SchedulerError(f"Slurm rejects the job: {text} ({program})", advice)

"""The interface of an engine that schedules jobs. Slurm and Ray implement it; the runner knows no other
part."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.job_request import JobRequest
from posttrain.spec.record import record

JobPhase = Literal["pending", "running", "over"]


@record(kw_only=True)
class JobSpec:
    """One job: a command, on each node of its request."""

    # Derived from the home and the key, so that the next client finds the job.
    name: str
    command: Sequence[str]
    request: JobRequest
    # Where the output goes that appears before the log of a step is open.
    output: Path
    # The image of the step, and the folders that its container needs under the same path.
    image: str | None = None
    writable: Sequence[str] = ()
    read_only: Sequence[str] = ()
    # The node on which it must run, as `nodes` names it; any node when empty.
    node: str = ""
    # Nodes that the job must not get, because they were lost a short time ago.
    excluded: Sequence[str] = ()


@record(kw_only=True)
class JobState:
    """A job as the engine reports it."""

    id: str
    name: str
    phase: JobPhase
    # The engine's word for the state, such as NODE_FAIL, and its reason.
    state: str = ""
    reason: str = ""
    nodes: str = ""
    # Whether a pending job waits for something that cannot happen.
    infeasible: bool = False


def describe_queue(engine: str, job: JobState) -> str:
    """Why a job waits, in the words of the engine; empty if it has none."""
    if job.phase != "pending" or job.reason in ("", "None"):
        return ""
    return f"{engine}: {job.reason}"


class SchedulerError(StepError):
    """The engine rejects a job, or does not answer."""


class Scheduler(Protocol):
    """The calls to an engine. Each can block for seconds, and raise `SchedulerError`."""

    # As messages name it.
    name: str

    def open(self) -> None: ...

    def submit(self, job: JobSpec, lock: int | None = None) -> str:
        """Submit a job and return its id. A process that does so inherits `lock`, so that the key stays
        locked until the engine has the job."""
        ...

    def jobs(self) -> Sequence[JobState]:
        """The jobs of this user, with those that ended lately if the engine remembers them."""
        ...

    def nodes(self) -> Sequence[str]:
        """The nodes that can run jobs of the place now."""
        ...

    def rejection(self, job: JobSpec) -> str | None:
        """Why the engine can never run a job; None if it can."""
        ...

    def cancel_pending(self, id: str) -> None:
        """Remove a job that has not started."""
        ...

    def terminate(self, id: str) -> None:
        """Send SIGTERM to the command of a running job."""
        ...

    def kill(self, id: str) -> None: ...

    def explain_end(self, job: JobState, *, terminated: bool = False) -> StepError:
        """The failure of a step whose job ended without a result of the step. `terminated`: the engine sent
        SIGTERM to the job before."""
        ...

    def close(self) -> None: ...

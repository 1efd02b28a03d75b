"""The state of one call of the worker pool, and the outcomes of workers that exit."""

import signal
from collections import deque
from dataclasses import dataclass, field

from posttrain.grading.context import Outcome
from posttrain.grading.worker_process import Task, Worker

CPU_LIMIT_EXIT = -signal.SIGPROF


@dataclass(frozen=True, slots=True)
class LostTask:
    """A task without an outcome, for a reason that is not in its texts."""

    reason: str


NOT_STARTED = LostTask("the comparison did not start")


def exit_outcome(worker: Worker) -> Outcome | LostTask:
    """The outcome of a task whose worker has exited."""
    code = worker.process.wait()
    if code != CPU_LIMIT_EXIT or worker.task is None:
        return LostTask(f"a worker exited with code {code}")
    limit = f"exceeds a limit: {worker.task.cpu_seconds:g} s of CPU time"
    if worker.stage == "reference":
        return Outcome(None, f"the reference {limit}", "limit")
    return Outcome(False, f"the candidate {limit}", "limit")


@dataclass(slots=True)
class PoolCall:
    """The state of one run of tasks: pending tasks, outcomes and workers."""

    pending: deque[tuple[int, Task]]
    outcomes: list[Outcome | LostTask]
    slots: int
    workers: list[Worker] = field(default_factory=list[Worker])

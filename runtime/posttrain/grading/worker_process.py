"""Starts and stops a worker process, and sends it tasks."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import IO

from posttrain.grading.context import Outcome
from posttrain.grading.options import Options

START_SECONDS = 120.0
MIN_WALL_SECONDS = 60.0
WALL_FACTOR = 10.0
COMMAND = ("-P", "-m", "posttrain.grading.worker")
INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG")


@dataclass(frozen=True, slots=True)
class Task:
    candidate: str
    reference: str
    options: Options
    cpu_seconds: float


@dataclass(slots=True)
class Worker:
    """A worker process. `task_index` is the index of its current task, or None if the worker is idle.

    stage: `reference` while the worker evaluates the reference alone, then `grading` or `proving`.
    provisional: the outcome before a proof is attempted.
    """

    process: subprocess.Popen[bytes]
    deadline: float
    buffer: bytes = b""
    ready: bool = False
    task_index: int | None = None
    task: Task | None = None
    stage: str = ""
    started_at: float = 0.0
    provisional: Outcome | None = None

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def is_busy(self) -> bool:
        return self.task_index is not None or not self.ready


def wall_seconds(task: Task) -> float:
    """The wall-clock limit of a task. Only a stuck machine reaches it: the CPU limit comes first."""
    return max(MIN_WALL_SECONDS, WALL_FACTOR * (2 * task.cpu_seconds + task.options.proof_timeout_s))


def start_worker() -> Worker:
    """Start a worker. It inherits no environment variables except those needed to find its modules."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    without_site = ["-S"] if sys.flags.no_site else []
    process = subprocess.Popen(
        [sys.executable, *without_site, *COMMAND, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=inherited | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        bufsize=0,
    )
    return Worker(process, deadline=time.monotonic() + START_SECONDS)


def send_task(worker: Worker, task_index: int, task: Task) -> None:
    """Send a task and set its deadline. If the worker cannot receive it, the deadline passes immediately."""
    message = {
        "candidate": task.candidate,
        "reference": task.reference,
        "options": asdict(task.options),
        "cpu_seconds": task.cpu_seconds,
    }
    worker.task_index, worker.task, worker.stage, worker.provisional = task_index, task, "reference", None
    worker.started_at = time.monotonic()
    worker.deadline = worker.started_at + wall_seconds(task)
    try:
        worker.stdin.write(json.dumps(message).encode() + b"\n")
    except OSError:
        worker.deadline = worker.started_at


def stop_worker(worker: Worker) -> None:
    worker.process.kill()
    worker.process.wait()
    worker.stdin.close()
    worker.stdout.close()

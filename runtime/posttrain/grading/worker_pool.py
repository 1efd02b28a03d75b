"""A pool of worker processes with limits of CPU time for each task.

The kernel ends a worker at its CPU limit, and the outcome is that of a limit: wrong, or undecided if the
reference alone exceeds it. The wall-clock limit is far larger, for a stuck machine. A task that reaches it,
or whose worker is lost, is graded once more alone, and stays undecided if that fails too.

The pool works from any thread, sets no signal handlers, and leaves no processes behind. Workers start on
demand, from one thread that lives as long as the pool: with PDEATHSIG, Linux kills a child when the thread
that started it ends, and the calling thread can be short-lived.
"""

import atexit
import json
import os
import selectors
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from posttrain.grading.context import Outcome
from posttrain.grading.pool_call import NOT_STARTED, LostTask, PoolCall, exit_outcome
from posttrain.grading.worker_process import (
    COMMAND,
    Task,
    Worker,
    send_task,
    start_worker,
    stop_worker,
    wall_seconds,
)

MAX_WORKERS = 4
READ_CHUNK_BYTES = 1 << 16


@dataclass(slots=True)
class PoolStats:
    """Statistics of the pool, for tests and profiling."""

    started: int = 0
    killed: int = 0
    tasks: int = 0
    retried: int = 0
    longest_task_s: float = 0.0


@dataclass(slots=True)
class WorkerPool:
    size: int
    stats: PoolStats = field(default_factory=PoolStats)
    idle: list[Worker] = field(default_factory=list[Worker])
    lock: threading.Lock = field(default_factory=threading.Lock)
    alone: threading.Lock = field(default_factory=threading.Lock)
    slots: threading.Semaphore = field(init=False)
    launcher: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.slots = threading.Semaphore(self.size)
        self.launcher = ThreadPoolExecutor(1, thread_name_prefix="grading-launcher")

    def run(self, tasks: list[Task]) -> list[Outcome]:
        """An outcome for each task, in order."""
        outcomes = self._run_tasks(tasks, self._acquire_slots(len(tasks))) if tasks else []
        return [
            self._run_alone(task) if isinstance(outcome, LostTask) else outcome
            for task, outcome in zip(tasks, outcomes, strict=True)
        ]

    def _run_alone(self, task: Task) -> Outcome:
        """Run a lost task again while this process runs no other."""
        self.stats.retried += 1
        with self.alone:
            for _ in range(self.size):
                self.slots.acquire()
            [outcome] = self._run_tasks([task], self.size)
        if isinstance(outcome, LostTask):
            return Outcome(None, f"{outcome.reason}, twice", "limit")
        return outcome

    def _run_tasks(self, tasks: list[Task], slots: int) -> list[Outcome | LostTask]:
        """Run the tasks in as many workers as there are slots, and release the slots."""
        call = PoolCall(deque(enumerate(tasks)), [NOT_STARTED] * len(tasks), min(slots, len(tasks)))
        try:
            self._run_call(call)
        finally:
            for worker in call.workers:
                self._release(worker)
            for _ in range(slots):
                self.slots.release()
        return call.outcomes

    def _acquire_slots(self, requested: int) -> int:
        """Wait for one slot, and take more if they are free."""
        self.slots.acquire()
        acquired = 1
        while acquired < min(requested, self.size) and self.slots.acquire(blocking=False):
            acquired += 1
        return acquired

    def _run_call(self, call: PoolCall) -> None:
        while True:
            while call.pending and len(call.workers) < call.slots:
                call.workers.append(self._acquire_worker())
            for worker in call.workers:
                if call.pending and not worker.is_busy:
                    send_task(worker, *call.pending.popleft())
                    self.stats.tasks += 1
            if not call.pending and not any(worker.is_busy for worker in call.workers):
                return
            self._wait_for_messages(call)

    def _acquire_worker(self) -> Worker:
        with self.lock:
            worker = self.idle.pop() if self.idle else None
        if worker is not None and worker.process.poll() is None:
            return worker
        if worker is not None:
            self._kill(worker)
        self.stats.started += 1
        return self.launcher.submit(start_worker).result()

    def _wait_for_messages(self, call: PoolCall) -> None:
        busy = [worker for worker in call.workers if worker.is_busy]
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.stdout, selectors.EVENT_READ, worker)
            nearest = min(worker.deadline for worker in busy)
            readable = [key.data for key, _ in selector.select(max(0.0, nearest - time.monotonic()))]
        for worker in readable:
            self._read_messages(worker, call)
        now = time.monotonic()
        for worker in busy:
            if worker in call.workers and worker.is_busy and now >= worker.deadline:
                self._handle_timeout(worker, call)

    def _read_messages(self, worker: Worker, call: PoolCall) -> None:
        chunk = os.read(worker.stdout.fileno(), READ_CHUNK_BYTES)
        if not chunk:
            self._handle_exit(worker, call)
            return
        *lines, worker.buffer = (worker.buffer + chunk).split(b"\n")
        for line in lines:
            self._handle_message(worker, json.loads(line), call)

    def _handle_message(self, worker: Worker, message: dict[str, Any], call: PoolCall) -> None:
        if "ready" in message:
            worker.ready = True
        elif worker.task is not None and worker.task_index is not None:
            worker.stage = message["stage"]
            outcome = Outcome(*message["outcome"]) if "outcome" in message else None
            if worker.stage == "done" and outcome is not None:
                call.outcomes[worker.task_index] = outcome
                self._finish_task(worker)
            else:
                worker.provisional = outcome

    def _finish_task(self, worker: Worker) -> None:
        self.stats.longest_task_s = max(self.stats.longest_task_s, time.monotonic() - worker.started_at)
        worker.task_index = worker.task = None

    def _handle_timeout(self, worker: Worker, call: PoolCall) -> None:
        if worker.task_index is not None and worker.task is not None:
            late = LostTask(f"no answer of a worker within {wall_seconds(worker.task):g} s")
            call.outcomes[worker.task_index] = worker.provisional or late
        self._discard(worker, call)

    def _handle_exit(self, worker: Worker, call: PoolCall) -> None:
        if worker.task_index is not None:
            call.outcomes[worker.task_index] = worker.provisional or exit_outcome(worker)
        self._discard(worker, call)
        if not worker.ready:
            command = " ".join([sys.executable, *COMMAND, "0"])
            raise RuntimeError(f"cannot start a grading worker; run `{command}` to see the error")

    def _discard(self, worker: Worker, call: PoolCall) -> None:
        call.workers.remove(worker)
        self._kill(worker)
        if worker.task_index is not None:
            self._finish_task(worker)

    def _kill(self, worker: Worker) -> None:
        self.stats.killed += 1
        stop_worker(worker)

    def _release(self, worker: Worker) -> None:
        if worker.is_busy or worker.process.poll() is not None:
            self._kill(worker)
            return
        with self.lock:
            self.idle.append(worker)

    def close(self) -> None:
        with self.lock:
            workers, self.idle = self.idle, []
        for worker in workers:
            stop_worker(worker)
        self.launcher.shutdown(wait=False)


@dataclass(slots=True)
class SharedPool:
    """The pool of this process, created on first use."""

    pool: WorkerPool | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


SHARED_POOL = SharedPool()


def shared_pool() -> WorkerPool:
    with SHARED_POOL.lock:
        if SHARED_POOL.pool is None:
            SHARED_POOL.pool = WorkerPool(max(1, min(MAX_WORKERS, (os.cpu_count() or 2) // 2)))
        return SHARED_POOL.pool


def close_shared_pool() -> None:
    """Stop the workers of this process. The next call starts new ones."""
    with SHARED_POOL.lock:
        pool, SHARED_POOL.pool = SHARED_POOL.pool, None
    if pool is not None:
        pool.close()


def _reset_after_fork() -> None:
    """Discard the pool in a forked child, because the workers and their pipes belong to the parent."""
    pool, SHARED_POOL.pool, SHARED_POOL.lock = SHARED_POOL.pool, None, threading.Lock()
    for worker in pool.idle if pool else ():
        os.close(worker.stdin.fileno())
        os.close(worker.stdout.fileno())


atexit.register(close_shared_pool)
os.register_at_fork(after_in_child=_reset_after_fork)

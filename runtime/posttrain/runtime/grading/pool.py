"""Worker processes that can be killed. Works from any thread, sets no signal, leaves nothing behind.

Workers are started when they are first needed, by one thread that lives as long as the pool: Linux ends a
child when the thread that started it ends, and the calling thread may be short-lived.
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

from posttrain.runtime.grading.context import Outcome
from posttrain.runtime.grading.process import COMMAND, START_SECONDS, Task, Worker, give, start, stop

WORKERS_AT_MOST = 4
READ_BYTES = 1 << 16
LATE = Outcome(None, "out of time before it was tried", "limit")


@dataclass(slots=True)
class Counts:
    """What the pool has done: for tests, and for whoever wants to know where time went."""

    started: int = 0
    killed: int = 0
    tasks: int = 0
    longest_s: float = 0.0
    most_over_s: float = 0.0


@dataclass(slots=True)
class Pool:
    size: int
    counts: Counts = field(default_factory=Counts)
    idle: list[Worker] = field(default_factory=list[Worker])
    lock: threading.Lock = field(default_factory=threading.Lock)
    slots: threading.Semaphore = field(init=False)
    keeper: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.slots = threading.Semaphore(self.size)
        self.keeper = ThreadPoolExecutor(1, thread_name_prefix="grading-keeper")

    def run(self, tasks: list[Task], within_s: float | None = None) -> list[Outcome]:
        """An outcome for each task, in order. A task beyond its seconds costs its worker its life."""
        if not tasks:
            return []
        end = time.monotonic() + within_s if within_s is not None else float("inf")
        call = Call(deque(enumerate(tasks)), [LATE] * len(tasks), self._slots(len(tasks)), end)
        try:
            self._work(call)
        finally:
            for worker in call.workers:
                self._release(worker)
            for _ in range(call.slots):
                self.slots.release()
        return call.outcomes

    def _slots(self, wanted: int) -> int:
        """At least one slot, more when they are free."""
        self.slots.acquire()
        held = 1
        while held < min(wanted, self.size) and self.slots.acquire(blocking=False):
            held += 1
        return held

    def _work(self, call: "Call") -> None:
        while time.monotonic() < call.end:
            while call.waiting and len(call.workers) < call.slots:
                call.workers.append(self._checked_out())
            for worker in call.workers:
                if call.waiting and not worker.waited_for:
                    give(worker, *call.waiting.popleft())
                    self.counts.tasks += 1
            if not call.waiting and not any(worker.waited_for for worker in call.workers):
                return
            self._listen(call)

    def _checked_out(self) -> Worker:
        with self.lock:
            worker = self.idle.pop() if self.idle else None
        if worker is not None and worker.process.poll() is None:
            return worker
        if worker is not None:
            self._end(worker)
        self.counts.started += 1
        return self.keeper.submit(start).result()

    def _listen(self, call: "Call") -> None:
        busy = [worker for worker in call.workers if worker.waited_for]
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.outlet, selectors.EVENT_READ, worker)
            nearest = min([call.end, *(worker.deadline for worker in busy)])
            heard = [key.data for key, _ in selector.select(max(0.0, nearest - time.monotonic()))]
        for worker in heard:
            self._hear(worker, call)
        now = time.monotonic()
        for worker in busy:
            if worker in call.workers and worker.waited_for and now >= worker.deadline:
                self._overdue(worker, call)

    def _hear(self, worker: Worker, call: "Call") -> None:
        piece = os.read(worker.outlet.fileno(), READ_BYTES)
        if not piece:
            self._lost(worker, call)
            return
        *lines, worker.buffer = (worker.buffer + piece).split(b"\n")
        for line in lines:
            self._message(worker, json.loads(line), call)

    def _message(self, worker: Worker, message: dict[str, Any], call: "Call") -> None:
        if "ready" in message:
            worker.ready = True
        elif worker.task is not None and worker.place is not None:
            if "proving" in message:
                worker.deadline = time.monotonic() + worker.task.options.proof_s
            elif message["final"]:
                call.outcomes[worker.place] = Outcome(*message["outcome"])
                self._done(worker)
            else:
                worker.provisional = Outcome(*message["outcome"])
                worker.deadline = time.monotonic() + START_SECONDS

    def _done(self, worker: Worker) -> None:
        now = time.monotonic()
        self.counts.longest_s = max(self.counts.longest_s, now - worker.begun)
        self.counts.most_over_s = max(self.counts.most_over_s, now - worker.deadline)
        worker.place = worker.task = None

    def _overdue(self, worker: Worker, call: "Call") -> None:
        if worker.place is not None and worker.task is not None:
            late = Outcome(None, f"no decision within {worker.task.seconds:g} s", "limit")
            call.outcomes[worker.place] = worker.provisional or late
        self._discard(worker, call)

    def _lost(self, worker: Worker, call: "Call") -> None:
        if worker.place is not None:
            lost = Outcome(None, f"a worker ended with code {worker.process.wait()}", "limit")
            call.outcomes[worker.place] = worker.provisional or lost
        self._discard(worker, call)
        if not worker.ready:
            command = " ".join([sys.executable, *COMMAND, "0"])
            raise RuntimeError(f"a grading worker does not start; `{command}` shows why")

    def _discard(self, worker: Worker, call: "Call") -> None:
        call.workers.remove(worker)
        self._end(worker)
        if worker.place is not None:
            self._done(worker)

    def _end(self, worker: Worker) -> None:
        self.counts.killed += 1
        stop(worker)

    def _release(self, worker: Worker) -> None:
        if worker.waited_for or worker.process.poll() is not None:
            self._end(worker)
            return
        with self.lock:
            self.idle.append(worker)

    def close(self) -> None:
        with self.lock:
            workers, self.idle = self.idle, []
        for worker in workers:
            stop(worker)
        self.keeper.shutdown(wait=False)


@dataclass(slots=True)
class Call:
    """One call of `run`: what is left to do, what is done, who works on it, and when it must end."""

    waiting: "deque[tuple[int, Task]]"
    outcomes: list[Outcome]
    slots: int
    end: float
    workers: list[Worker] = field(default_factory=list[Worker])


@dataclass(slots=True)
class Shared:
    """The pool of this process, made at the first need."""

    pool: Pool | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


SHARED = Shared()


def shared() -> Pool:
    with SHARED.lock:
        if SHARED.pool is None:
            SHARED.pool = Pool(max(1, min(WORKERS_AT_MOST, (os.cpu_count() or 2) // 2)))
        return SHARED.pool


def close() -> None:
    """End the workers of this process; the next need starts new ones."""
    with SHARED.lock:
        pool, SHARED.pool = SHARED.pool, None
    if pool is not None:
        pool.close()


def _forget() -> None:
    """In a forked child: the workers are the parent's, and so are their pipes."""
    pool, SHARED.pool, SHARED.lock = SHARED.pool, None, threading.Lock()
    for worker in pool.idle if pool else ():
        os.close(worker.inlet.fileno())
        os.close(worker.outlet.fileno())


atexit.register(close)
os.register_at_fork(after_in_child=_forget)

"""Follows all jobs of a client with one call to the engine, at most once per second."""

import threading
import time
from collections.abc import Sequence

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.scheduler import JobState, Scheduler
from posttrain.spec.record import record

_SECONDS = 1.0  # from the end of a call: the engine sees at most one per second, however slowly it starts


@record
class JobSnapshot:
    """The jobs at one time: when the call to the engine began, on the monotonic clock."""

    began: float
    jobs: Sequence[JobState]

    def find(self, id: str) -> JobState | None:
        return next((job for job in self.jobs if job.id == id), None)

    def live(self, name: str) -> list[JobState]:
        """The jobs of this name that wait or run."""
        return [job for job in self.jobs if job.name == name and job.phase != "over"]


class JobMonitor:
    """Calls the engine in a thread, so that a slow one delays no step, and only while a client asks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._updated = threading.Condition()
        self._latest: JobSnapshot | None = None
        self._error: StepError | None = None
        self._failing_since: float | None = None
        self._thread: threading.Thread | None = None
        self.calls = 0

    def latest(self) -> JobSnapshot | None:
        """The newest snapshot, and a request for the next one."""
        self._ask()
        return self._latest

    @property
    def last(self) -> JobSnapshot | None:
        return self._latest

    @property
    def error(self) -> StepError | None:
        """Why the last call failed."""
        return self._error

    @property
    def failing_seconds(self) -> float:
        """How long no call has succeeded."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def fresh(self, since: float | None = None) -> JobSnapshot:
        """A snapshot that began after `since`, or now. Raises the error of a call that failed after it."""
        since = time.monotonic() if since is None else since
        with self._updated:
            while self._latest is None or self._latest.began < since:
                self._ask()
                self._error = None
                self._updated.wait()
                if self._error is not None:
                    raise self._error
            return self._latest

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _ask(self) -> None:
        self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="job monitor", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            self._update(time.monotonic())
            self._closed.wait(_SECONDS)

    def _update(self, began: float) -> None:
        self.calls += 1
        try:
            jobs, error = self._scheduler.jobs(), None
        except StepError as problem:
            jobs, error = (), problem
        with self._updated:
            if error is None:
                self._latest = JobSnapshot(began, jobs)
                self._failing_since = None
            else:
                self._failing_since = self._failing_since or began
            self._error = error
            self._updated.notify_all()

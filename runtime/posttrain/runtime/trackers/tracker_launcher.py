"""Starts the process that feeds the trackers, and prints its warnings."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.child_process import kill_supervised, supervised_command
from posttrain.runtime.process_environment import tracker_environment
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import run_key
from posttrain.runtime.trackers.tracker_process import (
    TRACKED_KINDS,
    WARNINGS_FILE,
    feed_state_path,
    sent_folder,
)
from posttrain.spec.extension import Tracker
from posttrain.spec.plan import Plan

_TRACKER_MODULE = "posttrain.runtime.trackers.tracker_process"
_CLOSE_TIMEOUT = 60.0  # seconds after the run in which the trackers accept no metrics
_POLL_SECONDS = 0.1
Note = Callable[[str], None]


class TrackerLauncher:
    """A context manager around the execution of a plan. Its failures do not affect the run."""

    def __init__(self, plan: Plan, home: Home, run: Path, note: Note, stops_now: Callable[[], bool]) -> None:
        self._plan = plan
        self._home = home
        self._run = run
        self._note = note
        self._stops_now = stops_now
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> "TrackerLauncher":
        installed = installed_trackers(self._plan.tracking, self._note)
        pending = [name for name in installed if self._has_unsent(name)]
        if pending:
            self._start(pending)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._stop(self._process)
        self._print_warnings()

    def _has_unsent(self, tracker: str) -> bool:
        """Whether a step has metrics that were not sent to the tracker."""
        keys = [run_key(step, self._run.name) for step in self._plan.steps if step.kind in TRACKED_KINDS]
        return any(
            '"final": true' not in _read_text(feed_state_path(self._home, key, tracker)) for key in keys
        )

    def _start(self, trackers: Sequence[str]) -> None:
        self._log = (self._run / "tracking.log").open("ab")
        about = [str(self._home.root), str(self._run)]
        self._process = subprocess.Popen(
            supervised_command(_TRACKER_MODULE, *about, *trackers, end_signal=signal.SIGKILL),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=tracker_environment(_declared_variables(trackers), os.environ),
            start_new_session=True,  # Ctrl-C must not reach the trackers
        )

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None, "stdin is a pipe"
        process.stdin.close()
        start = progressed = time.monotonic()
        sent = self._last_sent()
        while process.poll() is None and self._may_wait(time.monotonic() - progressed):
            time.sleep(_POLL_SECONDS)
            if (now_sent := self._last_sent()) != sent:
                sent, progressed = now_sent, time.monotonic()
        if process.poll() is None:
            waited = time.monotonic() - start
            self._note(f"tracking: timeout after {waited:.0f} s; the next run sends the remaining metrics")
            kill_supervised(process)
        process.wait()
        if self._log is not None:
            self._log.close()

    def _last_sent(self) -> int:
        """When the record of the sent metrics changed: every metric that a tracker accepts changes it."""
        try:
            return sent_folder(self._home).stat().st_mtime_ns
        except OSError:
            return 0

    def _may_wait(self, waited: float) -> bool:
        """Whether there is time to wait for the trackers. A request to stop now leaves none."""
        return waited < _CLOSE_TIMEOUT and not self._stops_now()

    def _print_warnings(self) -> None:
        for line in _read_text(self._run / WARNINGS_FILE).splitlines():
            warning = json.loads(line)
            self._note(f"tracking: {warning['step']}: {warning['message']}")


def _declared_variables(trackers: Sequence[str]) -> list[str]:
    found = [CATALOG.find("tracker", name) for name in trackers]
    return [pattern for one in found if isinstance(one, Tracker) for pattern in one.variables]


def installed_trackers(trackers: Sequence[str], note: Note) -> list[str]:
    """The trackers whose packages are installed; notes the missing ones."""
    found: list[str] = []
    for name in trackers:
        tracker = CATALOG.find("tracker", name)
        assert isinstance(tracker, Tracker), "the compiler rejects unknown trackers"
        if find_spec(tracker.module) is not None:
            found.append(name)
        else:
            note(
                f"tracking: {name} is not installed and receives no metrics; install it with"
                f" pip install 'posttrain[{tracker.extra}]'"
            )
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""

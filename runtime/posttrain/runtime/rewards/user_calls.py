"""Calls a user's function in processes of its own, which are killed when they take too long.

The processes stay for the next batch: a training step must not pay for a start each time.
"""

import atexit
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.faults import StepFault
from posttrain.runtime.hosting.outside import START_SECONDS, Host


@dataclass(frozen=True)
class Called:
    """What one call gave: a value with perhaps a reason, an error, or `late` when it was cut short."""

    value: Any = None
    reason: str | None = None
    error: str | None = None
    late: bool = False


@dataclass(frozen=True)
class Function:
    file: Path
    name: str
    # Folders that the file may import from.
    folders: tuple[str, ...] = ()


def _started(function: Function) -> Host:
    """A process that has loaded the function's file."""
    host = Host(sys.executable, "function", function.file, function.name, {}, function.folders, {})
    first = host.ready()
    if first is None or "error" in first:
        host.stop()
        said = first["error"] if first else f"it is not loaded after {START_SECONDS:g} s"
        raise StepFault(f"{function.file.name}: {said}", "mend the file; try it with `recipe reward`")
    return host


@dataclass
class _Idle:
    """The processes that wait for work, by function."""

    processes: dict[Function, list[Host]] = field(default_factory=dict[Function, list[Host]])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, function: Function) -> Host:
        with self.lock:
            waiting = self.processes.get(function, [])
            while waiting:
                host = waiting.pop()
                if host.alive:
                    return host
                host.stop()
        return _started(function)

    def put(self, function: Function, host: Host) -> None:
        with self.lock:
            self.processes.setdefault(function, []).append(host)

    def close(self) -> None:
        with self.lock:
            stopping = [host for waiting in self.processes.values() for host in waiting]
            self.processes.clear()
        for host in stopping:
            host.stop()


_IDLE = _Idle()
atexit.register(_IDLE.close)


def close() -> None:
    """End the processes that wait; the next call starts new ones."""
    _IDLE.close()


def call_many(
    function: Function, rows: Sequence[dict[str, Any]], seconds: float, processes: int
) -> list[Called]:
    """Call the function with each row's arguments."""

    def call(arguments: dict[str, Any]) -> Called:
        return _call(function, arguments, seconds)

    with ThreadPoolExecutor(processes, thread_name_prefix="user-code") as pool:
        return list(pool.map(call, rows))


def _call(function: Function, arguments: dict[str, Any], seconds: float) -> Called:
    host = _IDLE.take(function)
    answer = host.ask(arguments, seconds)
    if answer is None or not host.alive:
        host.stop()
    else:
        _IDLE.put(function, host)
    if answer is None:
        return Called(late=True)
    return Called(answer.get("value"), answer.get("reason"), answer.get("error"))

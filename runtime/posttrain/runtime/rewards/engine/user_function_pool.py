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

from posttrain.runtime.errors import StepError
from posttrain.runtime.hosting.host_client import START_SECONDS, HostClient


@dataclass(frozen=True)
class CallResult:
    """What one call gave: a value with perhaps a reason, an error, or `timed_out` when it was cut short."""

    value: Any = None
    reason: str | None = None
    error: str | None = None
    timed_out: bool = False


@dataclass(frozen=True)
class UserFunction:
    file: Path
    name: str
    # Folders that the file may import from.
    folders: tuple[str, ...] = ()


def _start_process(function: UserFunction) -> HostClient:
    """A process that has loaded the function's file."""
    host = HostClient(sys.executable, "function", function.file, function.name, {}, function.folders, {})
    first = host.wait_until_ready()
    if first is None or "error" in first:
        host.stop()
        said = first["error"] if first else f"it is not loaded after {START_SECONDS:g} s"
        raise StepError(f"{function.file.name}: {said}", "mend the file; try it with `recipe reward`")
    return host


@dataclass
class _IdleProcesses:
    """The processes that wait for work, by function."""

    processes: dict[UserFunction, list[HostClient]] = field(
        default_factory=dict[UserFunction, list[HostClient]]
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, function: UserFunction) -> HostClient:
        with self.lock:
            waiting = self.processes.get(function, [])
            while waiting:
                host = waiting.pop()
                if host.is_alive:
                    return host
                host.stop()
        return _start_process(function)

    def put(self, function: UserFunction, host: HostClient) -> None:
        with self.lock:
            self.processes.setdefault(function, []).append(host)

    def close(self) -> None:
        with self.lock:
            stopping = [host for waiting in self.processes.values() for host in waiting]
            self.processes.clear()
        for host in stopping:
            host.stop()


_IDLE_PROCESSES = _IdleProcesses()
atexit.register(_IDLE_PROCESSES.close)


def close_idle_processes() -> None:
    """End the processes that wait; the next call starts new ones."""
    _IDLE_PROCESSES.close()


def call_many(
    function: UserFunction, rows: Sequence[dict[str, Any]], seconds: float, processes: int
) -> list[CallResult]:
    """Call the function with each row's arguments."""

    def call(arguments: dict[str, Any]) -> CallResult:
        return _call(function, arguments, seconds)

    with ThreadPoolExecutor(processes, thread_name_prefix="user-code") as pool:
        return list(pool.map(call, rows))


def _call(function: UserFunction, arguments: dict[str, Any], seconds: float) -> CallResult:
    host = _IDLE_PROCESSES.take(function)
    answer = host.request(arguments, seconds)
    if answer is None or not host.is_alive:
        host.stop()
    else:
        _IDLE_PROCESSES.put(function, host)
    if answer is None:
        return CallResult(timed_out=True)
    return CallResult(answer.get("value"), answer.get("reason"), answer.get("error"))

"""Calls a user-defined function in worker processes, which are killed at a timeout.

Idle processes are reused for the next batch, to save their startup time.
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
    """The result of one call: a value with an optional reason, an error, or a timeout."""

    value: Any = None
    reason: str | None = None
    error: str | None = None
    # Of an error: the part in the user's code and below.
    traceback: str = ""
    timed_out: bool = False


@dataclass(frozen=True)
class UserFunction:
    file: Path
    name: str
    # Folders to import from.
    folders: tuple[str, ...] = ()


def _start_process(function: UserFunction) -> HostClient:
    """Start a process and wait until it has loaded the function's file."""
    host = HostClient(sys.executable, "function", function.file, function.name, {}, function.folders, {})
    reply = host.wait_until_ready()
    if reply is None or "error" in reply:
        host.stop()
        reason = reply["error"] if reply else f"loading took longer than {START_SECONDS:g} s"
        raise StepError(
            f"{function.file.name}: {reason}",
            "fix the file, and test it with `recipe reward`",
            details=reply.get("traceback", "") if reply else "",
        )
    return host


@dataclass
class _IdleProcesses:
    """The idle processes of each function."""

    processes: dict[UserFunction, list[HostClient]] = field(
        default_factory=dict[UserFunction, list[HostClient]]
    )
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, function: UserFunction) -> HostClient:
        with self.lock:
            idle = self.processes.get(function, [])
            while idle:
                host = idle.pop()
                if host.is_alive:
                    return host
                host.stop()
        return _start_process(function)

    def put(self, function: UserFunction, host: HostClient) -> None:
        with self.lock:
            self.processes.setdefault(function, []).append(host)

    def close(self) -> None:
        with self.lock:
            stopping = [host for idle in self.processes.values() for host in idle]
            self.processes.clear()
        for host in stopping:
            host.stop()


_IDLE_PROCESSES = _IdleProcesses()
atexit.register(_IDLE_PROCESSES.close)


def close_idle_processes() -> None:
    """Stop all idle processes. The next call starts new ones."""
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
    reply = host.request(arguments, seconds)
    if reply is None or not host.is_alive:
        host.stop()
    else:
        _IDLE_PROCESSES.put(function, host)
    if reply is None:
        return CallResult(timed_out=True)
    return CallResult(reply.get("value"), reply.get("reason"), reply.get("error"), reply.get("traceback", ""))

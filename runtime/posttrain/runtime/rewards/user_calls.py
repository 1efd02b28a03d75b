"""Calls a user's function in processes of its own, which are killed when they take too long.

The processes stay for the next batch: a training step must not pay for a start each time.
"""

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from posttrain.runtime.faults import StepFault

_START_SECONDS = 120.0  # the file may import something heavy


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


@dataclass
class _Process:
    function: Function
    popen: subprocess.Popen[bytes]
    rest: bytes = b""

    @staticmethod
    def start(function: Function) -> "_Process":
        command = [sys.executable, "-m", "posttrain.runtime.rewards.user_code"]
        command += [str(function.file), function.name, *function.folders]
        popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        process = _Process(function, popen)
        first = process.answer(_START_SECONDS)
        if first is None or "refused" in first:
            process.stop()
            said = first["refused"] if first else f"it is not loaded after {_START_SECONDS:g} s"
            raise StepFault(f"{function.file.name}: {said}", "mend the file; try it with `recipe reward`")
        return process

    def ask(self, arguments: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(json.dumps(arguments).encode() + b"\n")
        except OSError:
            return {"error": f"its process ended with status {self.popen.wait()}"}
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """The next answer; None when there is none in time."""
        assert self.popen.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not _readable(self.popen.stdout, left):
                return None
            piece = os.read(self.popen.stdout.fileno(), 1 << 16)
            if not piece:
                return {"error": f"its process ended with status {self.popen.wait()}"}
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def stop(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()


def _readable(pipe: IO[bytes], seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(seconds))


@dataclass
class _Idle:
    """The processes that wait for work, by function."""

    processes: dict[Function, list[_Process]] = field(default_factory=dict[Function, list[_Process]])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, function: Function) -> _Process:
        with self.lock:
            waiting = self.processes.get(function, [])
            while waiting:
                process = waiting.pop()
                if process.popen.poll() is None:
                    return process
                process.stop()
        return _Process.start(function)

    def put(self, process: _Process) -> None:
        with self.lock:
            self.processes.setdefault(process.function, []).append(process)

    def close(self) -> None:
        with self.lock:
            stopping = [process for waiting in self.processes.values() for process in waiting]
            self.processes.clear()
        for process in stopping:
            process.stop()


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
    process = _IDLE.take(function)
    answer = process.ask(arguments, seconds)
    if answer is None or process.popen.poll() is not None:
        process.stop()
    else:
        _IDLE.put(process)
    if answer is None:
        return Called(late=True)
    return Called(answer.get("value"), answer.get("reason"), answer.get("error"))

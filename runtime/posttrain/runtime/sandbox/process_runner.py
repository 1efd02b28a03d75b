"""Runs one program with one input, and returns after all its processes have ended."""

import os
import selectors
import subprocess
import time
from dataclasses import dataclass, field
from typing import Literal

from posttrain.runtime.errors import StepError
from posttrain.runtime.sandbox.job import Job, JobDescriptors, Sandbox, sealed_memfd
from posttrain.runtime.sandbox.limits import RunResult

_CHUNK = 1 << 16
_MAX_ERRORS = 1 << 14
# The sandbox usually starts in milliseconds. The limit is high so that load on the machine fails no program.
_START_SECONDS = 60.0
_END_SECONDS = 30.0

RunOutcome = Literal["exited", "late", "overflowed", "not started"]


def run(sandbox: Sandbox, job: Job) -> RunResult:
    started_read, started_write = os.pipe2(os.O_CLOEXEC)
    try:
        with (
            sealed_memfd(job.input) as stdin,
            sandbox.start(job, JobDescriptors(input=stdin, started=started_write)) as process,
        ):
            os.close(started_write)
            started_write = -1
            return _watch_process(process, started_read, job)
    finally:
        for descriptor in (started_read, started_write):
            if descriptor >= 0:
                os.close(descriptor)


def _watch_process(process: subprocess.Popen[bytes], started_pipe: int, job: Job) -> RunResult:
    watch = _ProcessWatch(process, started_pipe, job)
    try:
        outcome = watch.wait_for_exit()
    finally:
        process.kill()
        status = process.wait()
        watch.wait_for_pipes()
    return RunResult(
        outcome=outcome,
        status=128 - status if status < 0 else status,
        output=bytes(watch.output),
        errors=bytes(watch.errors),
        seconds=time.monotonic() - (watch.started_at or watch.start),
    )


@dataclass
class _ProcessWatch:
    """Watches one running program, and reads its output up to a limit."""

    process: subprocess.Popen[bytes]
    started_pipe: int
    job: Job
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    start: float = field(default_factory=time.monotonic)
    started_at: float | None = None
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __post_init__(self) -> None:
        self.exit_fd = os.pidfd_open(self.process.pid)
        self.max_output = self.job.limits.output_kb * 1024
        for pipe, buffer in ((self.process.stdout, self.output), (self.process.stderr, self.errors)):
            assert pipe is not None, "both are pipes"
            self.selector.register(pipe, selectors.EVENT_READ, buffer)
        self.selector.register(self.started_pipe, selectors.EVENT_READ)
        self.selector.register(self.exit_fd, selectors.EVENT_READ)

    def wait_for_exit(self) -> RunOutcome:
        while True:
            left = self._deadline() - time.monotonic()
            if left <= 0:
                return "not started" if self.started_at is None else "late"
            ready = {key.fd for key in self._read(left)}
            if len(self.output) > self.max_output:
                return "overflowed"
            if self.exit_fd in ready:
                return "not started" if self.started_at is None else "exited"

    def wait_for_pipes(self) -> None:
        """Wait until the pipes close, which happens when the last process of the program ends."""
        self.selector.unregister(self.exit_fd)
        os.close(self.exit_fd)
        end = time.monotonic() + _END_SECONDS
        try:
            while any(key.data is not None for key in self.selector.get_map().values()):
                if not self._read(end - time.monotonic()):
                    raise StepError("cannot stop a program in the sandbox", "check the load of the machine")
        finally:
            self.selector.close()
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None, "both are pipes"
                pipe.close()

    def _deadline(self) -> float:
        if self.started_at is None:
            return self.start + _START_SECONDS
        return self.started_at + self.job.limits.seconds

    def _read(self, seconds: float) -> list[selectors.SelectorKey]:
        """Read the available output, and wait for it for this many seconds."""
        ready = [key for key, _ in self.selector.select(max(0.0, seconds))]
        for key in ready:
            if key.fd == self.exit_fd:
                continue
            chunk = os.read(key.fd, _CHUNK)
            if key.fd == self.started_pipe:
                self.started_at = time.monotonic() if chunk else self.started_at
                self.selector.unregister(self.started_pipe)
            elif chunk:
                self._append_output(key.data, chunk)
            else:
                self.selector.unregister(key.fileobj)
        return ready

    def _append_output(self, buffer: bytearray, chunk: bytes) -> None:
        if buffer is self.errors:
            buffer += chunk
            del buffer[:-_MAX_ERRORS]  # the last lines have the error message
        elif len(buffer) <= self.max_output:
            buffer += chunk

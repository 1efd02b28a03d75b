"""Runs one program with one input, and does not come back before nothing of it is left."""

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
# The walls go up in milliseconds; a machine under load is not the program's fault.
_START_SECONDS = 60.0
_END_SECONDS = 30.0

RunOutcome = Literal["exited", "late", "overflowed", "not started"]


def run(box: Sandbox, job: Job) -> RunResult:
    begun, begins = os.pipe2(os.O_CLOEXEC)
    try:
        with (
            sealed_memfd(job.input) as given,
            box.start(job, JobDescriptors(input=given, started=begins)) as process,
        ):
            os.close(begins)
            begins = -1
            return _watch_process(process, begun, job)
    finally:
        for descriptor in (begun, begins):
            if descriptor >= 0:
                os.close(descriptor)


def _watch_process(process: subprocess.Popen[bytes], begun: int, job: Job) -> RunResult:
    watch = _ProcessWatch(process, begun, job)
    try:
        how = watch.wait_for_exit()
    finally:
        process.kill()
        status = process.wait()
        watch.wait_for_pipes()
    return RunResult(
        outcome=how,
        status=128 - status if status < 0 else status,
        output=bytes(watch.output),
        errors=bytes(watch.errors),
        seconds=time.monotonic() - (watch.started_at or watch.start),
    )


@dataclass
class _ProcessWatch:
    """One running program: reads what it writes, up to a limit."""

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
        for pipe, kept in ((self.process.stdout, self.output), (self.process.stderr, self.errors)):
            assert pipe is not None, "both are pipes"
            self.selector.register(pipe, selectors.EVENT_READ, kept)
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
        """The pipes close when the last process that could write to them is gone."""
        self.selector.unregister(self.exit_fd)
        os.close(self.exit_fd)
        end = time.monotonic() + _END_SECONDS
        try:
            while any(key.data is not None for key in self.selector.get_map().values()):
                if not self._read(end - time.monotonic()):
                    raise StepError("a program in the sandbox cannot be ended", "look at the machine's load")
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
        """Take what is there, or comes in time."""
        found = [key for key, _ in self.selector.select(max(0.0, seconds))]
        for key in found:
            if key.fd == self.exit_fd:
                continue
            piece = os.read(key.fd, _CHUNK)
            if key.fd == self.started_pipe:
                self.started_at = time.monotonic() if piece else self.started_at
                self.selector.unregister(self.started_pipe)
            elif piece:
                self._append_output(key.data, piece)
            else:
                self.selector.unregister(key.fileobj)
        return found

    def _append_output(self, kept: bytearray, piece: bytes) -> None:
        if kept is self.errors:
            kept += piece
            del kept[:-_MAX_ERRORS]  # the last words matter
        elif len(kept) <= self.max_output:
            kept += piece

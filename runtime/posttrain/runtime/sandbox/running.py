"""Runs one program with one input, and does not come back before nothing of it is left."""

import os
import selectors
import subprocess
import time
from dataclasses import dataclass, field
from typing import Literal

from posttrain.runtime.faults import StepFault
from posttrain.runtime.sandbox.job import Box, Job, Outside, sealed
from posttrain.runtime.sandbox.limits import Ended

_PIECE = 1 << 16
_MOST_ERRORS = 1 << 14
# The walls go up in milliseconds; a machine under load is not the program's fault.
_START_SECONDS = 60.0
_END_SECONDS = 30.0

How = Literal["exited", "late", "overflowed", "not started"]


def run(box: Box, job: Job) -> Ended:
    begun, begins = os.pipe2(os.O_CLOEXEC)
    try:
        with sealed(job.input) as given, box.start(job, Outside(input=given, begun=begins)) as process:
            os.close(begins)
            begins = -1
            return _watched(process, begun, job)
    finally:
        for descriptor in (begun, begins):
            if descriptor >= 0:
                os.close(descriptor)


def _watched(process: subprocess.Popen[bytes], begun: int, job: Job) -> Ended:
    watch = _Watch(process, begun, job)
    try:
        how = watch.until_it_ends()
    finally:
        process.kill()
        status = process.wait()
        watch.until_nothing_is_left()
    return Ended(
        how=how,
        status=128 - status if status < 0 else status,
        output=bytes(watch.output),
        errors=bytes(watch.errors),
        seconds=time.monotonic() - (watch.began or watch.start),
    )


@dataclass
class _Watch:
    """One running program: reads what it writes, up to a limit."""

    process: subprocess.Popen[bytes]
    begun: int
    job: Job
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    start: float = field(default_factory=time.monotonic)
    began: float | None = None
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __post_init__(self) -> None:
        self.gone = os.pidfd_open(self.process.pid)
        self.most = self.job.limits.output_kb * 1024
        for pipe, kept in ((self.process.stdout, self.output), (self.process.stderr, self.errors)):
            assert pipe is not None, "both are pipes"
            self.selector.register(pipe, selectors.EVENT_READ, kept)
        self.selector.register(self.begun, selectors.EVENT_READ)
        self.selector.register(self.gone, selectors.EVENT_READ)

    def until_it_ends(self) -> How:
        while True:
            left = self._deadline() - time.monotonic()
            if left <= 0:
                return "not started" if self.began is None else "late"
            ready = {key.fd for key in self._read(left)}
            if len(self.output) > self.most:
                return "overflowed"
            if self.gone in ready:
                return "not started" if self.began is None else "exited"

    def until_nothing_is_left(self) -> None:
        """The pipes close when the last process that could write to them is gone."""
        self.selector.unregister(self.gone)
        os.close(self.gone)
        end = time.monotonic() + _END_SECONDS
        try:
            while any(key.data is not None for key in self.selector.get_map().values()):
                if not self._read(end - time.monotonic()):
                    raise StepFault("a program in the sandbox cannot be ended", "look at the machine's load")
        finally:
            self.selector.close()
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None, "both are pipes"
                pipe.close()

    def _deadline(self) -> float:
        if self.began is None:
            return self.start + _START_SECONDS
        return self.began + self.job.limits.seconds

    def _read(self, seconds: float) -> list[selectors.SelectorKey]:
        """Take what is there, or comes in time."""
        found = [key for key, _ in self.selector.select(max(0.0, seconds))]
        for key in found:
            if key.fd == self.gone:
                continue
            piece = os.read(key.fd, _PIECE)
            if key.fd == self.begun:
                self.began = time.monotonic() if piece else self.began
                self.selector.unregister(self.begun)
            elif piece:
                self._keep(key.data, piece)
            else:
                self.selector.unregister(key.fileobj)
        return found

    def _keep(self, kept: bytearray, piece: bytes) -> None:
        if kept is self.errors:
            kept += piece
            del kept[:-_MOST_ERRORS]  # the last words matter
        elif len(kept) <= self.most:
            kept += piece

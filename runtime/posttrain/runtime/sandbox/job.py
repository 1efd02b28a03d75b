"""A program with its input and limits, and the protocol of the sandboxes that run it."""

import fcntl
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from subprocess import Popen
from typing import Protocol

from posttrain.runtime.sandbox.languages import InputMode, Language
from posttrain.runtime.sandbox.limits import Limits

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(frozen=True, kw_only=True)
class Job:
    language: Language
    program: bytes
    input_mode: InputMode = "stdin"
    input: bytes = b""
    limits: Limits

    def files(self) -> Mapping[str, bytes]:
        return {**self.language.files(), self.language.program_file: self.program}

    def command(self, folder: str, started: int) -> Sequence[str]:
        return self.language.command(folder, self.input_mode, started)


@dataclass(frozen=True, kw_only=True)
class JobDescriptors:
    """File descriptors: standard input, and the pipe that signals the start of the program."""

    input: int
    started: int


class Sandbox(Protocol):
    def start(self, job: Job, descriptors: JobDescriptors) -> AbstractContextManager[Popen[bytes]]:
        """Start the program. All its processes end with the returned one. Leaving removes its files."""
        ...


@contextmanager
def sealed_memfd(content: bytes) -> Generator[int]:
    """A file descriptor for the content, in memory and sealed against writing."""
    descriptor = os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        yield descriptor
    finally:
        os.close(descriptor)

"""What is given to a box: a program, its input, its limits; and the descriptors that lead out of it."""

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

    def command(self, folder: str, begun: int) -> Sequence[str]:
        return self.language.command(folder, self.input_mode, begun)


@dataclass(frozen=True, kw_only=True)
class JobDescriptors:
    """Descriptors: standard input, and where it is told that the program begins."""

    input: int
    started: int


class Sandbox(Protocol):
    def start(self, job: Job, outside: JobDescriptors) -> AbstractContextManager[Popen[bytes]]:
        """The program, started: all of it ends with this process. Leaving clears away what it needed."""
        ...


@contextmanager
def sealed_memfd(content: bytes) -> Generator[int]:
    """A descriptor to read this from. Nobody can write to it: it is memory of this side's."""
    descriptor = os.memfd_create("given", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        yield descriptor
    finally:
        os.close(descriptor)

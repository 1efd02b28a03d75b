"""What a program may take, and how one run of it ended."""

from dataclasses import dataclass
from typing import Literal

MIB = 1 << 20
# Threads that a program may have beside its processes.
MAX_THREADS = 32

Verdict = Literal["passed", "wrong", "timed_out", "memory", "crashed", "forbidden"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    # Wall-clock time of one run, and the time of a core that it may use up.
    seconds: float = 10.0
    cpu_seconds: int = 5
    # All processes together.
    memory_mb: int = 512
    processes: int = 1
    # Files that it may write, below /tmp; 0 leaves nothing that can be written to.
    disk_mb: int = 0
    output_kb: int = 1024

    def process_limits(self, *, threads: int | None) -> dict[str, int]:
        """The limits that the kernel sets for each process, by the names that prlimit and Python know."""
        found = {
            "cpu": self.cpu_seconds,
            "as": self.memory_mb * MIB // self.processes,
            "fsize": self.disk_mb * MIB,
            "nofile": 64,
            "core": 1,  # 0 would still hand dumps to a program, where the kernel is set to do so
            "memlock": 0,
            "msgqueue": 0,
            "sigpending": 64,
            "stack": 8 * MIB,
        }
        return found if threads is None else {**found, "nproc": threads}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended. `status` is the exit status, 128 + N for one that signal N ended."""

    outcome: Literal["exited", "late", "overflowed", "not started"]
    status: int = 0
    output: bytes = b""
    errors: bytes = b""
    seconds: float = 0.0

    @property
    def last_error_line(self) -> str:
        lines = self.errors.decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

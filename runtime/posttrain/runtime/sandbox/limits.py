"""Resource limits for a program in a sandbox, and the result of its run."""

from dataclasses import dataclass
from typing import Literal

MIB = 1 << 20
# The maximum number of threads in addition to the program's processes.
MAX_THREADS = 32

# `timed_out` is beyond a limit on CPU time, a property of the program. `undecided` is beyond the wall-clock
# limit, which depends on the load of the machine.
Verdict = Literal["passed", "wrong", "timed_out", "undecided", "memory", "crashed", "forbidden"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    # Wall-clock time and CPU time of one run.
    seconds: float = 30.0
    cpu_seconds: int = 5
    # The total of all processes.
    memory_mb: int = 512
    processes: int = 1
    # Space for files below /tmp. With 0 the whole file system is read-only.
    disk_mb: int = 0
    output_kb: int = 1024

    def process_limits(self, *, threads: int | None) -> dict[str, int]:
        """The kernel's limits for each process, by the names that prlimit and Python use."""
        limits = {
            "cpu": self.cpu_seconds,
            "as": self.memory_mb * MIB // self.processes,
            "fsize": self.disk_mb * MIB,
            "nofile": 64,
            "core": 1,  # with 0, a kernel that pipes core dumps to a program would still do so
            "memlock": 0,
            "msgqueue": 0,
            "sigpending": 64,
            "stack": 8 * MIB,
        }
        return limits if threads is None else {**limits, "nproc": threads}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The outcome of a run. `status` is the exit status, or 128 + N if signal N ended the program."""

    outcome: Literal["exited", "late", "overflowed", "not started"]
    status: int = 0
    output: bytes = b""
    errors: bytes = b""
    seconds: float = 0.0

    @property
    def last_error_line(self) -> str:
        lines = self.errors.decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

"""What this machine has left: memory, disk space of a home, GPUs."""

import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime.machine import total_memory_gb

_GPU_FIELDS = (
    "index",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "temperature.gpu",
    "power.draw",
)
_GPU_SECONDS = 4.0  # between two calls of nvidia-smi
_GPU_TIMEOUT = 3.0
_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Usage:
    """An amount of a resource in bytes, or a share of 1."""

    name: str
    used: float
    total: float
    note: str = ""

    @property
    def share(self) -> float:
        return min(1.0, max(0.0, self.used / self.total)) if self.total > 0 else 0.0


def memory_usage(
    meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")
) -> Usage | None:
    """The memory of the machine, or of the container around this process."""
    try:
        total = total_memory_gb(meminfo, cgroup) * _GIB
        found = dict(re.findall(r"(\w+):\s+(\d+) kB", meminfo.read_text()))
        machine, free = int(found["MemTotal"]) * 1024, int(found["MemAvailable"]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    used = float(machine - free)
    if total < machine:  # a container
        try:
            used = float((cgroup / "memory.current").read_text())
        except (OSError, ValueError):
            return None
    return Usage(name="Memory", used=used, total=total)


def disk_usage(folder: Path) -> Usage | None:
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        return None
    return Usage(name="Disk of the home", used=float(found.total - found.free), total=float(found.total))


def load_text() -> str:
    """The mean number of processes that ran or waited in the last minute, and the cores."""
    cores = len(os.sched_getaffinity(0))
    return f"load {os.getloadavg()[0]:.1f} on {cores} core{'s' if cores > 1 else ''}"


class GpuMonitor:
    """The GPUs that nvidia-smi lists. Its result is used for some seconds, because a call takes long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = 0.0
        self._found: tuple[Usage, ...] = ()

    def usage(self) -> tuple[Usage, ...]:
        with self._lock:
            if time.monotonic() >= self._due:
                self._found = _query_gpus()
                self._due = time.monotonic() + _GPU_SECONDS
            return self._found


def _query_gpus() -> tuple[Usage, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_GPU_TIMEOUT,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_gpus(done.stdout)


def parse_gpus(text: str) -> tuple[Usage, ...]:
    """The memory of each GPU, with its load, temperature and power in the note."""
    found: list[Usage] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(_GPU_FIELDS):
            continue
        index, name, load, used, total, temperature, power = cells
        try:
            memory = float(used) * 2**20, float(total) * 2**20
        except ValueError:  # `[N/A]`, as of a card that MIG divides
            continue
        known = [(load, "% busy"), (temperature, " \u00b0C"), (power, " W")]
        about = [f"{float(value):.0f}{unit}" for value, unit in known if _is_number(value)]
        found.append(
            Usage(name=f"GPU {index}", used=memory[0], total=memory[1], note=" \u00b7 ".join([name, *about]))
        )
    return tuple(found)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None

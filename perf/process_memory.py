"""Samples the memory of all processes below this one."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_INTERVAL_SECONDS = 0.25
_MB = 1000


@dataclass(frozen=True)
class MemoryPeak:
    """Peaks in MB: the proportional set size (PSS), and its part without mapped files."""

    pss: float
    private: float


class MemorySampler:
    """Samples while its context is open. A page that processes share counts once."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, float]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def peak(self, start: float, end: float) -> MemoryPeak:
        """The peaks between two times."""
        inside = [sample for sample in self._samples if start <= sample[0] <= end]
        if not inside:
            raise ValueError(f"no sample of the memory between {start} and {end}")
        return MemoryPeak(max(pss for _, pss, _ in inside), max(own for _, _, own in inside))

    def _run(self) -> None:
        while not self._closed.wait(_INTERVAL_SECONDS):
            found = [_memory(pid) for pid in _below(os.getpid())]
            self._samples.append((time.time(), sum(one[0] for one in found), sum(one[1] for one in found)))


def _below(root: int) -> list[int]:
    """The processes whose ancestor is `root`."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            parent = _fields(folder / "status").get("PPid")
            if parent is not None:
                children.setdefault(parent, []).append(int(folder.name))
    found, pending = list[int](), [root]
    while pending:
        pending += children.get(pending.pop(), [])
        found = [*found, *[pid for pid in pending if pid not in found]]
    return found


def _memory(pid: int) -> tuple[float, float]:
    """The PSS of a process, and its part of it that is of no file, in MB."""
    found = _fields(Path(f"/proc/{pid}/smaps_rollup"))
    pss = found.get("Pss", 0)
    return pss / _MB, (found.get("Pss_Anon", 0) + found.get("Pss_Shmem", 0)) / _MB


def _fields(file: Path) -> dict[str, int]:
    try:
        lines = file.read_text().splitlines()
    except OSError:  # the process has ended
        return {}
    pairs = (line.split()[:2] for line in lines if len(line.split()) >= 2)
    return {name.removesuffix(":"): int(value) for name, value in pairs if value.isdecimal()}

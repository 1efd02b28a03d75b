"""Detects the cores, memory and GPUs of this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from posttrain.spec.record import record

_GIB = 1 << 30


@record(kw_only=True)
class Machine:
    cpus: int
    memory_gb: float
    # Names as CUDA_VISIBLE_DEVICES accepts them.
    gpus: tuple[str, ...] = ()


def this_machine(*, gpus: bool) -> Machine:
    """The resources of this machine. GPUs are detected only on request, because detection is slow."""
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=total_memory_gb(),
        gpus=visible_gpus(installed_gpus(), os.environ) if gpus else (),
    )


def available_cpus(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """The cores that this process may use: those of its affinity mask, within the quota of its container."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no container, no quota (`max`), or version 1 of cgroups
        return cores


def total_memory_gb(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The memory of the machine, or the memory limit of the container around this process."""
    found = re.search(r"MemTotal:\s+(\d+) kB", meminfo.read_text())
    total = int(found[1]) * 1024 if found else 0
    try:
        limit = (cgroup / "memory.max").read_text().strip()
    except OSError:
        limit = "max"
    return (min(total, int(limit)) if limit.isdecimal() else total) / _GIB


def installed_gpus() -> tuple[str, ...]:
    """The indices of the NVIDIA GPUs that the driver lists."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    listed = subprocess.run(
        [program, "--query-gpu=index", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return tuple(line.strip() for line in listed.stdout.splitlines() if line.strip().isdecimal())


def visible_gpus(installed: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The GPUs that the caller can use: all, or those in CUDA_VISIBLE_DEVICES."""
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None or not installed:
        return installed
    visible: list[str] = []
    for name in (part.strip() for part in named.split(",")):
        if not name or name == "-1" or (name.isdecimal() and name not in installed):
            break  # like CUDA, which ignores everything after an invalid name
        visible.append(name)
    return tuple(visible)

"""Detects the cores, memory and GPUs of this machine, and finds the steps that require more."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from posttrain.spec.plan import Resources, Step
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


def unmet_requirements(steps: Iterable[Step], machine: Machine) -> list[str]:
    """The requirements of steps that this machine can never meet, as one message each."""
    return [sentence for step in steps if (sentence := _unmet_requirement(step.id, step.resources, machine))]


def _unmet_requirement(id: str, required: Resources, machine: Machine) -> str:
    if required.gpus > len(machine.gpus):
        available = str(len(machine.gpus) or "none")
        return (
            f"`{id}` requires {_pluralize(required.gpus, 'GPU')}, but this machine has {available} available;"
            f" run the recipe on a machine with {_pluralize(required.gpus, 'GPU')} (planning works here)"
        )
    if required.cpus > machine.cpus:
        return (
            f"`{id}` requires {_pluralize(required.cpus, 'core')}, but this machine has {machine.cpus};"
            f" lower hardware.cpus, or run it on a machine with {_pluralize(required.cpus, 'core')}"
        )
    if required.memory_gb is not None and required.memory_gb > machine.memory_gb:
        return (
            f"`{id}` requires {required.memory_gb:g} GB of memory, but this machine has"
            f" {machine.memory_gb:.1f} GB; lower its memory_gb, or run it on a machine with"
            f" {required.memory_gb:g} GB"
        )
    return ""


def _pluralize(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")

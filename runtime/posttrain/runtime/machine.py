"""What this machine has for steps: cores, memory, GPUs; and which steps require more."""

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
    # By the names that CUDA_VISIBLE_DEVICES takes.
    gpus: tuple[str, ...] = ()


def this_machine(*, gpus: bool) -> Machine:
    """What is here. GPUs are looked for only where a step requires them: asking takes a while."""
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=total_memory_gb(),
        gpus=visible_gpus(installed_gpus(), os.environ) if gpus else (),
    )


def total_memory_gb(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The machine's memory, or what the container that we are in may use of it."""
    found = re.search(r"MemTotal:\s+(\d+) kB", meminfo.read_text())
    total = int(found[1]) * 1024 if found else 0
    try:
        limit = (cgroup / "memory.max").read_text().strip()
    except OSError:
        limit = "max"
    return (min(total, int(limit)) if limit.isdecimal() else total) / _GIB


def installed_gpus() -> tuple[str, ...]:
    """The numbers of the NVIDIA GPUs that the driver shows us."""
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
    """The GPUs that the caller may use: all, or those that CUDA_VISIBLE_DEVICES leaves."""
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None or not installed:
        return installed
    left: list[str] = []
    for name in (part.strip() for part in named.split(",")):
        if not name or name == "-1" or (name.isdecimal() and name not in installed):
            break  # CUDA too takes nothing that stands after a name it does not know
        left.append(name)
    return tuple(left)


def unmet_requirements(steps: Iterable[Step], machine: Machine) -> list[str]:
    """Requirements of steps that this machine can never meet, one sentence each."""
    return [sentence for step in steps if (sentence := _unmet_requirement(step.id, step.resources, machine))]


def _unmet_requirement(id: str, required: Resources, machine: Machine) -> str:
    if required.gpus > len(machine.gpus):
        has = f"{len(machine.gpus)} of them" if machine.gpus else "none"
        return (
            f"`{id}` needs {_pluralize(required.gpus, 'GPU')}, and this machine has {has} to use;"
            f" plan it here, run it on a machine with {_pluralize(required.gpus, 'GPU')}"
        )
    if required.cpus > machine.cpus:
        return (
            f"`{id}` needs {_pluralize(required.cpus, 'core')}, and this machine has {machine.cpus};"
            f" lower hardware.cpus, or run it on a machine with {_pluralize(required.cpus, 'core')}"
        )
    if required.memory_gb is not None and required.memory_gb > machine.memory_gb:
        return (
            f"`{id}` needs {required.memory_gb:g} GB of memory, and this machine has {machine.memory_gb:.1f};"
            f" lower its memory_gb, or run it on a machine with {required.memory_gb:g} GB"
        )
    return ""


def _pluralize(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")

"""The card of this machine, read without initializing CUDA: a forked process could not use the card then."""

import shutil
import subprocess
from dataclasses import dataclass

from posttrain.compiler.facts.accelerators import Device, accelerator_names, find_accelerator


@dataclass(frozen=True)
class Card:
    name: str
    driver: str
    memory_mib: int
    device: Device  # its row in the table of accelerators


def find_card() -> Card | None:
    """The first card, or None on a machine without one. An unknown card is an error."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not listed:
        return None
    name, driver, memory = (part.strip() for part in listed.splitlines()[0].split(","))
    device = find_accelerator(name)
    if device is None:
        known = ", ".join(one for one in accelerator_names() if one != "CPU")
        raise SystemExit(
            f"the card `{name}` is not in compiler/posttrain/compiler/facts/accelerators.json: add a row with"
            f" its memory, speed and bandwidth, and the name under `also`. Known: {known}"
        )
    return Card(name, driver, int(memory), device)


def cpu_device() -> Device:
    device = find_accelerator("CPU")
    assert device is not None, "the table of accelerators has a CPU"
    return device

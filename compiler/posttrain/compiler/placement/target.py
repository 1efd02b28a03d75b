"""The target machine of a recipe, which can differ from the current machine."""

import re
from typing import NamedTuple

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.facts.accelerators import Device, accelerator_names, find_accelerator
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import DEFAULT_MEMORY_HEADROOM, Hardware
from posttrain.spec.suggestions import hint

UNKNOWN_GPU = Code(
    "PT1001",
    "unknown GPU type",
    "error",
    "`hardware.gpus` is a count and a GPU type, for example 8xH100-80GB. Without a count it is one GPU. The"
    " type sets the memory, the speed and the price for the estimates of the plan.",
    wrong=minimal_recipe(("recipe: 1\n", "recipe: 1\nhardware: {gpus: 8xH1000-80GB}\n")),
    right=minimal_recipe(("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n")),
)
CODES = (UNKNOWN_GPU,)
GB = 10**9
_GPUS_PATTERN = re.compile(r"(?:(\d{1,4})\s*[xX*]\s*)?(.*)")


class Target(NamedTuple):
    """`gpus` of one type in each of `nodes` machines; 0 if the CPU trains."""

    device: Device
    gpus: int
    nodes: int
    # Whether the memory of the device is known. For a CPU, it is known if the recipe sets it.
    memory_known: bool = True
    # The fraction of the memory that the placement of a training leaves free.
    memory_headroom: float = DEFAULT_MEMORY_HEADROOM

    @property
    def processes(self) -> int:
        """The largest number of training processes: one per GPU."""
        return self.gpus * self.nodes

    @property
    def display_name(self) -> str:
        return self.device.name if self.gpus else "this machine"


def resolve_target(hardware: Hardware, diagnostics: Diagnostics) -> Target | None:
    """Return the target of the recipe, or None if it is invalid, which is reported."""
    if hardware.gpus is None:
        return _cpu_target(hardware)
    found = _GPUS_PATTERN.fullmatch(hardware.gpus.strip())
    assert found is not None, "the pattern matches any text"
    count, kind = int(found[1] or 1), found[2].strip()
    device = find_accelerator(kind)
    if device is None or device.kind != "gpu" or count < 1:
        _report_unknown_gpu(kind, count, diagnostics)
        return None
    if hardware.price_per_hour is not None:
        device = device._replace(dollars_per_hour=hardware.price_per_hour / count)
    return Target(device, count, hardware.nodes, memory_headroom=hardware.memory_headroom)


def _cpu_target(hardware: Hardware) -> Target:
    device = find_accelerator("CPU")
    assert device is not None, "the table of accelerators has a CPU"
    price = hardware.price_per_hour or 0.0
    device = device._replace(dollars_per_hour=price)
    if hardware.memory_gb is None:
        return Target(device, 0, hardware.nodes, memory_known=False)
    limited = device._replace(memory=int(hardware.memory_gb * GB))
    return Target(limited, 0, hardware.nodes, memory_headroom=hardware.memory_headroom)


def _report_unknown_gpu(kind: str, count: int, diagnostics: Diagnostics) -> None:
    path = ("hardware", "gpus")
    if count < 1:
        diagnostics.add(
            UNKNOWN_GPU, path, "the number of GPUs is 0: remove `gpus` for a machine without GPUs"
        )
        return
    known = [name for name in accelerator_names() if name != "CPU"]
    help, meant = hint(kind, known, what="GPU types")
    replace = f"{count}x{meant}" if meant else None
    diagnostics.add(UNKNOWN_GPU, path, f"unknown GPU type `{kind}`", help=help, replace=replace)

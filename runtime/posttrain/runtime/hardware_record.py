"""The hardware that a step runs on, as recorded in its first event.

Equal weights are guaranteed on equal hardware only: libraries select their kernels by the processor.
"""

import platform
import re
from collections.abc import Mapping
from pathlib import Path


def hardware_record(proc: Path = Path("/proc"), *, gpus: bool) -> Mapping[str, str]:
    """The architecture, the processor and, for a step with GPUs, their model. Starts no program."""
    found = {"architecture": platform.machine(), "processor": _field(proc / "cpuinfo", "model name")}
    if gpus:
        files = sorted(proc.glob("driver/nvidia/gpus/*/information"))
        found["gpus"] = ", ".join(sorted({_field(file, "Model") for file in files} - {""}))
    return {name: value for name, value in found.items() if value}


def _field(file: Path, name: str) -> str:
    """The first value of a field in a file of the kernel; empty if it has none."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{re.escape(name)}\s*:\s*(.*\S)", text, re.MULTILINE)
    return found[1] if found else ""

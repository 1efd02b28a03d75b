"""Imports libraries without initializing CUDA, which a forked process could not use then.

Importing bitsandbytes asks torch whether there is a GPU, and for its compute capability; PEFT imports it
where it is installed. DeepSpeed asks when accelerate imports it. Here torch asks NVML instead, which needs no
context of CUDA, and the capability comes from nvidia-smi.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

# torch.cuda.is_available() then uses NVML.
_NVML_VARIABLE = "PYTORCH_NVML_BASED_CUDA_CHECK"
_QUERY_SECONDS = 20


@contextmanager
def fork_safe_imports() -> Generator[None]:
    """Keep the imports inside from initializing CUDA. Does nothing on a machine without NVIDIA GPUs."""
    capabilities = _compute_capabilities()
    if not capabilities:
        yield
        return
    import torch

    cuda: Any = torch.cuda
    original, before = cuda.get_device_capability, os.environ.get(_NVML_VARIABLE)

    def capability(device: Any = None) -> tuple[int, int]:
        index = getattr(device, "idx", device)  # a `torch.cuda.device`, or a number
        return capabilities[index if isinstance(index, int) and 0 <= index < len(capabilities) else 0]

    cuda.get_device_capability = capability
    os.environ[_NVML_VARIABLE] = "1"
    try:
        yield
    finally:
        cuda.get_device_capability = original
        os.environ.pop(_NVML_VARIABLE)
        if before is not None:
            os.environ[_NVML_VARIABLE] = before


def can_use_gpus_after_fork() -> bool:
    """Whether this forked process can initialize CUDA: not if its parent has touched it."""
    torch: Any = sys.modules.get("torch")
    return torch is None or not torch.cuda._is_in_bad_fork()


@cache
def _compute_capabilities() -> tuple[tuple[int, int], ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_QUERY_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = [line.strip().partition(".") for line in done.stdout.splitlines()]
    return tuple((int(a), int(b)) for a, _, b in found if a.isdecimal() and b.isdecimal())

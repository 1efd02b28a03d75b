"""Other ways to compute a model than transformers' own: Liger's kernels, and those of torch.compile.

TRL announces that it will drop Liger in its 2.0; should a release do so, this file is where that shows.
"""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.training.training_params import TrainingParams

_REMOVE_ADVICE = "or take `%s: true` out"


def kernel_arguments(params: TrainingParams, gpus: int, scratch: Path) -> dict[str, Any]:
    """The trainer's arguments; says what is missing before anything is computed by them."""
    found: dict[str, Any] = {}
    if getattr(params, "use_liger_kernel", False):
        _check_liger(gpus)
        # Trainers that read the logits themselves lose them to Liger's own forward.
        found |= {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": False}}
    if getattr(params, "torch_compile", False):
        _check_compiler(gpus)
        # What is compiled belongs to the step, and not to whoever shares a folder of the machine's.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "compiled")
        found["torch_compile"] = True
    return found


def merge_trl_arguments(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's arguments with those of the recipe. Of one that is a mapping, as Liger's kernels are,
    what the recipe does not give stays ours."""
    found = {**own, **given}
    within = [name for name, value in given.items() if isinstance(value, dict) and own.get(name)]
    return found | {name: {**own[name], **given[name]} for name in within}


def _check_liger(gpus: int) -> None:
    off = _REMOVE_ADVICE % "use_liger_kernel"
    if gpus == 0:
        raise StepError(
            "Liger computes on GPUs, and the stage has none", f"name them under `hardware`, {off}"
        )
    if find_spec("liger_kernel") is None:
        raise StepError(
            "`use_liger_kernel: true` needs Liger, which is not installed",
            f"install posttrain with its extra `cuda`, {off}",
        )


def _check_compiler(gpus: int) -> None:
    """torch.compile writes Triton for a GPU and C++ for a CPU."""
    off = _REMOVE_ADVICE % "torch_compile"
    if gpus and find_spec("triton") is None:
        raise StepError(
            "`torch_compile: true` needs Triton, which is not installed",
            f"install posttrain with its extra `cuda`, {off}",
        )
    if not gpus and shutil.which(os.environ.get("CXX", "g++")) is None:
        raise StepError(
            "`torch_compile: true` needs a C++ compiler on a CPU, and there is none",
            f"install g++, {off}",
        )

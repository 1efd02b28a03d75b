"""Optional compute kernels of a training stage: Liger and torch.compile.

TRL announces that release 2.0 drops Liger; only this file depends on it.
"""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.training.training_params import TrainingParams

_REMOVE_ADVICE = "or remove `%s: true`"


def kernel_arguments(params: TrainingParams, gpus: int, scratch: Path) -> dict[str, Any]:
    """Return the trainer arguments for the kernels. Raises StepError for missing requirements."""
    arguments: dict[str, Any] = {}
    if getattr(params, "use_liger_kernel", False):
        _check_liger(gpus)
        # With the fused loss, Liger's forward returns no logits, which some trainers read.
        arguments |= {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": False}}
    if getattr(params, "torch_compile", False):
        _check_compiler(gpus)
        # A cache for this step only: the default folder is shared by all users of the machine.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "compiled")
        arguments["torch_compile"] = True
    return arguments


def merge_trl_arguments(own: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the recipe's trainer arguments over our own. Mappings, such as liger_kernel_config, are merged
    key by key."""
    nested = [name for name, value in recipe.items() if isinstance(value, dict) and own.get(name)]
    return {**own, **recipe} | {name: {**own[name], **recipe[name]} for name in nested}


def _check_liger(gpus: int) -> None:
    off = _REMOVE_ADVICE % "use_liger_kernel"
    if gpus == 0:
        raise StepError(
            "`use_liger_kernel: true` needs a GPU, but the stage has none",
            f"declare GPUs under `hardware`, {off}",
        )
    if find_spec("liger_kernel") is None:
        raise StepError(
            "`use_liger_kernel: true` needs Liger, which is not installed",
            f"install posttrain with its extra `cuda`, {off}",
        )


def _check_compiler(gpus: int) -> None:
    """Check for the compiler: torch.compile generates Triton for a GPU and C++ for a CPU."""
    off = _REMOVE_ADVICE % "torch_compile"
    if gpus and find_spec("triton") is None:
        raise StepError(
            "`torch_compile: true` needs Triton, which is not installed",
            f"install posttrain with its extra `cuda`, {off}",
        )
    if not gpus and shutil.which(os.environ.get("CXX", "g++")) is None:
        raise StepError(
            "`torch_compile: true` needs a C++ compiler on a CPU, but none was found",
            f"install g++, {off}",
        )

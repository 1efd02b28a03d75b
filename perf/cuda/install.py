"""Imports every library, and runs one kernel of each against plain torch. Each check is a process of its
own."""

import importlib
import importlib.metadata
import time
from importlib.util import find_spec
from typing import Any

from perf.cuda import kernel_checks
from perf.cuda.bench import Bench
from perf.cuda.forked import set_step_variables
from perf.cuda.versions import locked_versions

_MODULES = {
    "torch": "torch",
    "triton": "triton",
    "transformers": "transformers.trainer",  # the package itself imports nothing until it is used
    "accelerate": "accelerate",
    "peft": "peft",
    "trl": "trl.trainer.grpo_trainer",
    "datasets": "datasets",
    "duckdb": "duckdb",
    "ruamel-yaml": "ruamel.yaml",
    "bitsandbytes": "bitsandbytes",
    "liger-kernel": "liger_kernel.transformers",
    "deepspeed": "deepspeed",
    "vllm": "vllm",
    "flash-attn": "flash_attn",
    "posttrain": "posttrain.runtime.training.training_loop",
}


def run(bench: Bench) -> None:
    set_step_variables()
    head = ["library", "installed", "locked", "imports", "seconds"]
    imports = bench.report.table("Imports", head, "Each in a new process.")
    locked = locked_versions()
    for name, module in _MODULES.items():
        version = _version(name)
        if version is None and name != "posttrain":
            bench.report.add(imports, name, None, locked.get(name), "not installed", None)
            continue
        bench.attempt(
            imports, name, 5, lambda n=name, v=version, m=module: [v, locked.get(n), *_import(bench, n, m)]
        )
    importlib.import_module("torch")  # here, and not in the process of each kernel
    head = ["kernel", "runs", "largest difference", "first call, ms", "later calls, ms"]
    note = "Against float32 in plain torch on the same device; SDPA and Liger with the backward pass."
    kernels = bench.report.table("Kernels", head, note)
    for name, check in kernel_checks.CHECKS.items():
        if (reason := _unavailable(bench, check)) is not None:
            bench.report.add(kernels, name, reason, None, None, None)
            continue
        bench.attempt(kernels, name, 5, lambda n=name, c=check: _run_check(bench, n, c))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import(bench: Bench, name: str, module: str) -> list[Any]:
    def work() -> float:
        began = time.monotonic()
        importlib.import_module(module)
        return time.monotonic() - began

    seconds = bench.fork(f"import-{name}", work, 120)
    return ["yes", round(seconds, 1)]


def _unavailable(bench: Bench, check: kernel_checks.Check) -> str | None:
    if check.module and find_spec(check.module) is None:
        return f"no: {check.module} is not installed"
    if check.gpu and bench.scale.dry:
        return "no: needs a GPU"
    return None


def _run_check(bench: Bench, name: str, check: kernel_checks.Check) -> list[Any]:
    device = "cpu" if bench.scale.dry else "cuda"
    found = bench.fork(f"kernel-{name.replace(' ', '-')}", lambda: kernel_checks.measure(check, device), 180)
    return ["yes", found["difference"], round(found["first_ms"], 1), round(found["later_ms"], 2)]

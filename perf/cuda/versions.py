"""The versions that a result was measured on, and the check of the stack.

The default, `locked`, measures only on the versions of requirements/cuda.txt. `host` measures on whatever
is installed and records every difference: for a host with its own torch, where the locked stack cannot be
installed.
"""

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from perf.cuda.card import Card

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "cuda.txt"
StackMode = Literal["locked", "host"]
# What computes; the others are recorded too, but a difference does not refuse.
COMPUTING = (
    *("torch", "triton", "transformers", "trl", "accelerate", "peft", "tokenizers", "safetensors"),
    *("datasets", "bitsandbytes", "liger-kernel", "deepspeed", "vllm", "flash-attn", "kernels"),
)


def locked_versions() -> dict[str, str]:
    """The versions of the lock; of several for one package, the last, which is for the newest Python."""
    text = LOCK.read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE))


def installed_versions() -> dict[str, str]:
    """The versions of all locked packages and computing libraries that are installed."""
    found: dict[str, str] = {}
    for name in sorted({*locked_versions(), *COMPUTING}):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def stack_differences(installed: Mapping[str, str], locked: Mapping[str, str]) -> list[str]:
    """The computing libraries that are missing or have another version than the lock."""
    return [
        f"{name} {installed.get(name, 'is missing')}, locked {locked[name]}"
        for name in COMPUTING
        if name in locked and installed.get(name, "").partition("+")[0] != locked[name]
    ]


def check_stack(mode: StackMode) -> list[str]:
    """The differences, which are recorded with `host` and refused with `locked`."""
    found = stack_differences(installed_versions(), locked_versions())
    if found and mode == "locked":
        raise SystemExit(
            "the installed libraries differ from requirements/cuda.txt: "
            + "; ".join(found)
            + "\nInstall the locked stack (`make cuda` does), or add STACK=host (--stack host) to measure on"
            " this stack and record the differences."
        )
    return found


def version_record(card: Card | None, mode: StackMode) -> dict[str, Any]:
    """Everything that names the machine and its software, for a page of results."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "card": card.name if card else "none: a dry run on a CPU, which measures nothing",
        "driver": card.driver if card else "",
        "cuda": _torch_cuda(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}",
        "revision": _revision(),
        "stack": mode,
        "differences": stack_differences(installed_versions(), locked_versions()),
        "installed": installed_versions(),
    }


def _torch_cuda() -> str:
    """The CUDA version of torch's build, without importing torch."""
    spec = importlib.metadata.distribution("torch").locate_file("torch/version.py")
    found = re.search(r"^cuda\b[^=\n]*= '([\d.]+)'", Path(str(spec)).read_text(), re.MULTILINE)
    return found[1] if found else ""


def _revision() -> str:
    """The commit of the sources, if they are a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()

"""Runs a function in a forked process of its own, with a time limit.

The parent has imported the libraries and never initializes CUDA, as the forkserver of a run: a process
costs no import, starts with an unused card, and cannot damage the next one.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from posttrain.runtime.fork_safe_imports import fork_safe_imports
from posttrain.runtime.process_tree import die_with_parent
from posttrain.spec.variable_rules import key_variables

_LIBRARIES = (
    *("pyarrow.parquet", "datasets", "peft", "trl", "transformers", "torch.distributed"),
    *("trl.trainer.sft_trainer", "trl.trainer.dpo_trainer", "trl.trainer.reward_trainer"),
    *("trl.trainer.grpo_trainer", "posttrain.runtime.worker", "posttrain.runtime.training.training_loop"),
)
_LOG_LINES = 25


class ForkFailure(Exception):
    """The process failed, or reached its limit. The message ends with the end of its log."""


def set_step_variables() -> None:
    """The variables of a step that can change a result, so that scripts compute under the same ones."""
    os.environ.update(key_variables())
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "TRL_EXPERIMENTAL_SILENCE": "1"}
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}


def preload() -> None:
    set_step_variables()
    with fork_safe_imports():
        for name in _LIBRARIES:
            import_module(name)


def run_forked(work: Callable[[], Any], folder: Path, seconds: float) -> Any:
    """Run `work` in `folder` and return its result, which must be JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        die_with_parent(parent)
        _run_child(work, folder, result)
    status = _wait(pid, time.monotonic() + seconds)
    if status == 0 and result.exists():
        return json.loads(result.read_text(encoding="utf-8"))
    cause = f"no result within {seconds:.0f} s" if status is None else f"exit status {status}"
    raise ForkFailure(f"{cause}\n{log_end(folder / 'log')}")


def log_end(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-_LOG_LINES:])


def _run_child(work: Callable[[], Any], folder: Path, result: Path) -> None:
    os.setsid()
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    status = 1
    try:
        value = work()
        result.write_text(json.dumps(value), encoding="utf-8")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int, deadline: float) -> int | None:
    """The exit status, or None for a process that was killed at its deadline."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.02)

"""Runs a step as a process of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from posttrain.spec.extension import Runner

EXTENSION = Runner(name="process", summary="A process of this machine.")


@dataclass(frozen=True)
class Handle:
    process: subprocess.Popen[bytes]


class ProcessRunner:
    """Starts workers, watches them and stops them. A worker dies with the process that started it."""

    def start(self, work: Path, secrets: Mapping[str, str], lock: int) -> Handle:
        """Start the step that `work` describes. `lock` is a descriptor that the worker holds on to."""
        log = work / "record" / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "posttrain.runtime.worker", str(work), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(work, secrets),
                pass_fds=(lock,),
                start_new_session=True,
            )
        return Handle(process)

    def poll(self, handle: Handle) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return handle.process.poll()

    def stop(self, handle: Handle, *, now: bool = False) -> None:
        """Ask the step to keep what it has and end; with `now`, end it."""
        if handle.process.poll() is not None:
            return
        if now:
            os.killpg(handle.process.pid, signal.SIGKILL)
            handle.process.wait()
        else:
            handle.process.send_signal(signal.SIGTERM)


_PASSED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TZ")
_PREFIXES = ("CUDA_", "NVIDIA_", "HF_HOME", "HF_ENDPOINT", "SSL_", "REQUESTS_", "PYTHONPATH", "RECIPE_TEST_")


def _environment(work: Path, secrets: Mapping[str, str]) -> dict[str, str]:
    """A small environment: nothing of the caller's that a result could secretly depend on."""
    kept = {
        name: value for name, value in os.environ.items() if name in _PASSED or name.startswith(_PREFIXES)
    }
    return {
        **kept,
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_DATASETS_CACHE": str(work / "scratch" / "datasets"),
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        **secrets,
    }

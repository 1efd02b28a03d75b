"""Starts `recipe` commands as forks of an interpreter that has imported the training stack.

The imports take ten seconds of a processor, and every `recipe run` repeats them. A fork runs the same code.
With POSTTRAIN_TEST_PRELOAD=no, every command is a new process.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, Any

from posttrain.runtime.process_environment import forkserver_environment

_SERVER = Path(__file__).parent / "preloaded_interpreter.py"
START_ENVIRONMENT = dict(os.environ)
# No library reads these when it is imported.
_NAMES_READ_LATE = ("PYTEST_", "RECIPE_", "POSTTRAIN_", "JUDGE_", "SLURM_CONF")
# Libraries set these in the test process. Workers do not inherit them.
_NAMES_OF_LIBRARIES = (
    *("KMP_", "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_NVML_BASED_CUDA_CHECK", "ACCELERATE_", "FSDP_", "RANK"),
    *("HF_ALLOW_CODE_EVAL", "HF_HUB_DISABLE_PROGRESS_BARS", "TRANSFORMERS_VERBOSITY", "MLFLOW_", "TRACKIO_"),
    *("HF_XET_HIGH_PERFORMANCE", "VLLM_NO_USAGE_STATS"),
)


class PreloadedProcess:
    """A process of `python -m MODULE`, with the interface of `subprocess.Popen`."""

    def __init__(
        self, *argv: str, stdin: IO[Any], stdout: IO[Any], stderr: IO[Any], cwd: Path | None
    ) -> None:
        self.args = [sys.executable, "-m", *argv]
        self.returncode: int | None = None
        self._server = _server()
        request = {"argv": argv, "env": dict(os.environ), "cwd": str(cwd or Path.cwd())}
        streams = [stream.fileno() for stream in (stdin, stdout, stderr)]
        self.pid: int = self._server.ask(request, streams)["pid"]
        self._exited = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._exited], [], [], timeout)[0]:
            os.close(self._exited)
            self.returncode = self._server.ask({"reap": self.pid})["status"]
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = Lock()
        # As in the forkserver of a run, which its workers inherit.
        environment = START_ENVIRONMENT | forkserver_environment(START_ENVIRONMENT)
        command = [sys.executable, str(_SERVER), str(theirs.fileno()), "-" * 1000]  # room for other arguments
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
        )
        theirs.close()

    def ask(self, request: dict[str, Any], streams: list[int] | None = None) -> dict[str, Any]:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], streams or [])
            return json.loads(self._socket.recv(1 << 12))


@cache
def _server() -> _Server:
    """The server of this process. It exits when this process has exited."""
    return _Server()


def can_preload() -> bool:
    """Whether the environment is that of the start of the tests: libraries read much of it when imported."""
    if os.environ.get("POSTTRAIN_TEST_PRELOAD") == "no":
        return False
    names = os.environ.keys() | START_ENVIRONMENT.keys()
    changed = {name for name in names if os.environ.get(name) != START_ENVIRONMENT.get(name)}
    return all(name.startswith(_NAMES_READ_LATE + _NAMES_OF_LIBRARIES) for name in changed)

"""Imports of the forkserver do not initialize CUDA, and a worker with GPUs survives one that does.

The driver is a replacement: a library for NVML that reports one GPU, and a program nvidia-smi. torch records
that CUDA was touched before it finds that there is no driver, so that a CPU shows the defect.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import require_service

_NVML = "int nvmlInit(void) { return 0; } int nvmlDeviceGetCount_v2(int *n) { *n = 1; return 0; }"
_IMPORT = """
import os, sys, torch
from contextlib import nullcontext
from posttrain.runtime.fork_safe_imports import can_use_gpus_after_fork, fork_safe_imports

with fork_safe_imports() if sys.argv[1] == "safe" else nullcontext():
    import peft
assert "bitsandbytes" in sys.modules, "PEFT imports bitsandbytes"
if os.fork() == 0:
    print("usable" if can_use_gpus_after_fork() else "unusable", flush=True)
    os._exit(0)
os.wait()
"""
# The forkserver has touched CUDA. The worker reports whether it is a fork.
_SERVER = """
import sys, torch
from posttrain.runtime import forkserver
torch.cuda.is_available()
forkserver.main(int(sys.argv[1]), int(sys.argv[2]))
"""
# Runs when Python starts, and writes which files the process holds.
_REPORTER = """
import os
if os.environ.get("REPORT"):
    with open(os.environ["REPORT"], "w") as report:
        for number in range(20):
            try:
                print(os.readlink(f"/proc/self/fd/{number}"), file=report)
            except OSError:
                pass
"""


@pytest.fixture
def gpu_driver(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with one GPU, as far as imports can see."""
    compiler = require_service("a C compiler", shutil.which("cc"), "apt-get install gcc")
    (tmp_path / "nvml.c").write_text(_NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 9.0\n")
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "LD_LIBRARY_PATH": str(tmp_path)}


@pytest.mark.slow
@pytest.mark.parametrize(("how", "found"), [("safe", "usable"), ("plain", "unusable")])
def test_a_fork_can_use_gpus_after_the_imports(gpu_driver: dict[str, str], how: str, found: str) -> None:
    require_service("bitsandbytes", find_spec("bitsandbytes"), "`make test` installs it on Linux")
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, how], env=gpu_driver, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [found]


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "program"), [(0, "fork"), (1, "new program")])
def test_a_worker_with_gpus_does_not_inherit_a_touched_cuda(tmp_path: Path, gpus: int, program: str) -> None:
    """A fork has the arguments of the forkserver; a new program has its own, and the lock."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", _SERVER, str(theirs.fileno()), str(os.getpid())]
    server = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    theirs.close()
    # The worker fails because it has no job, after it has written why.
    (tmp_path / "record").mkdir()
    package = tmp_path / "site"
    package.mkdir()
    (package / "sitecustomize.py").write_text(_REPORTER)
    report = tmp_path / "report"
    environment = {**os.environ, "PYTHONPATH": str(package), "REPORT": str(report)}
    request = {
        "start": 1,
        "work": str(tmp_path),
        "env": environment,
        "threads": 1,
        "gpus": gpus,
        "import": [],
    }
    with ours, (tmp_path / "log").open("wb") as log, (tmp_path / "lock").open("wb") as lock:
        socket.send_fds(ours, [json.dumps(request).encode()], [lock.fileno(), log.fileno()])
        assert json.loads(ours.recv(1 << 16))["started"] == 1
        assert json.loads(ours.recv(1 << 16))["status"] != 0
    assert server.wait() == 0
    assert ("new program" if report.exists() else "fork") == program
    if report.exists():
        assert str(tmp_path / "lock") in report.read_text().splitlines()

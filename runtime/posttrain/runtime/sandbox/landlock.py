"""A box without namespaces: the kernel's Landlock closes the disk, and the filter of system calls the rest.

For where no namespace can be made, as in a container. It is the weaker box: the program sees the machine's
process numbers and the names of files (not what is in them), can have neither threads nor further
processes nor files, and a fault of the kernel in one of these two walls is not caught by another one.
"""

import base64
import ctypes
import json
import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime.sandbox.job import Job, JobDescriptors
from posttrain.runtime.sandbox.languages.python_language import interpreter
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.seccomp import Policy, compile_filter

_CREATE_RULESET, _VERSION = 444, 1


@dataclass(frozen=True)
class Landlock:
    @contextmanager
    def start(self, job: Job, outside: JobDescriptors) -> Generator[subprocess.Popen[bytes]]:
        with tempfile.TemporaryDirectory(prefix="posttrain-box.") as folder:
            for name, content in job.files().items():
                Path(folder, name).write_bytes(content)
            told_read, told_write = os.pipe()
            process = _start_launcher(told_read, folder, job, outside)
            os.close(told_read)
            with os.fdopen(told_write, "wb") as told:
                told.write(json.dumps(_launcher_terms(process.pid, folder, job, outside)).encode())
            yield process


def _start_launcher(told: int, folder: str, job: Job, outside: JobDescriptors) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(interpreter()), "-I", "-S", "-B", str(Path(__file__).with_name("enter.py")), str(told)],
        stdin=outside.input,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=dict(job.language.environment),
        cwd=folder,
        pass_fds=(told, outside.started),
        start_new_session=True,
    )


def _launcher_terms(pid: int, folder: str, job: Job, outside: JobDescriptors) -> dict[str, object]:
    """What `enter.py` is told: the walls, and the command behind them."""
    system = [name for name in ("/usr", "/lib", "/lib64", "/bin") if Path(name).is_dir()]
    return {
        "readable": [*system, *job.language.read_folders(), folder],
        "parent": os.getpid(),
        "limits": _process_limits(job.limits),
        "filter": base64.b64encode(compile_filter(Policy(threads=False, own_pid=pid))).decode(),
        "command": list(job.command(folder, outside.started)),
        "environment": dict(job.language.environment),
    }


def _process_limits(limits: Limits) -> dict[str, int]:
    """No count of processes: it would count all of the user's. The filter allows none."""
    return limits.process_limits(threads=None)


def landlock_abi_version() -> int:
    """The kernel's version of Landlock; 0 where there is none, or it may not be used."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    return max(0, call(_CREATE_RULESET, None, 0, _VERSION))

"""A sandbox without namespaces: Landlock restricts the file system, and a seccomp filter the rest.

Use it where namespaces are not available, such as in a container. It is weaker than bubblewrap. The program
sees the process IDs of the machine and the names (not the contents) of its files. It cannot start threads or
processes or write files. A kernel bug in Landlock or in seccomp is not covered by another layer.
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
    def start(self, job: Job, descriptors: JobDescriptors) -> Generator[subprocess.Popen[bytes]]:
        with tempfile.TemporaryDirectory(prefix="posttrain-sandbox.") as folder:
            for name, content in job.files().items():
                Path(folder, name).write_bytes(content)
            terms_read, terms_write = os.pipe()
            process = _start_launcher(terms_read, folder, job, descriptors)
            os.close(terms_read)
            with os.fdopen(terms_write, "wb") as pipe:
                pipe.write(json.dumps(_launcher_terms(process.pid, folder, job, descriptors)).encode())
            yield process


def _start_launcher(
    terms: int, folder: str, job: Job, descriptors: JobDescriptors
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            str(interpreter()),
            "-I",
            "-S",
            "-B",
            str(Path(__file__).with_name("landlock_launcher.py")),
            str(terms),
        ],
        stdin=descriptors.input,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=dict(job.language.environment),
        cwd=folder,
        pass_fds=(terms, descriptors.started),
        start_new_session=True,
    )


def _launcher_terms(pid: int, folder: str, job: Job, descriptors: JobDescriptors) -> dict[str, object]:
    """The input of `landlock_launcher.py`: the restrictions, and the command to run under them."""
    system = [name for name in ("/usr", "/lib", "/lib64", "/bin") if Path(name).is_dir()]
    return {
        "readable": [*system, *job.language.read_folders(), folder],
        "parent": os.getpid(),
        "limits": _process_limits(job.limits),
        "filter": base64.b64encode(compile_filter(Policy(threads=False, own_pid=pid))).decode(),
        "command": list(job.command(folder, descriptors.started)),
        "environment": dict(job.language.environment),
    }


def _process_limits(limits: Limits) -> dict[str, int]:
    """The limits without `nproc`, which counts all processes of the user. The filter allows no new ones."""
    return limits.process_limits(threads=None)


def landlock_abi_version() -> int:
    """The Landlock ABI version of the kernel, or 0 if Landlock is missing or disabled."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    return max(0, call(_CREATE_RULESET, None, 0, _VERSION))

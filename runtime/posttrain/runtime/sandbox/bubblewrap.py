"""A sandbox with bubblewrap: separate process, network, file and user namespaces, with only the host's /usr.

It has no /proc. It is read-only unless the limits allow files. All its processes end with the first one.
The limits are set inside the sandbox, because bubblewrap itself would exceed them.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime.sandbox.job import Job, JobDescriptors, sealed_memfd
from posttrain.runtime.sandbox.limits import MAX_THREADS, MIB
from posttrain.runtime.sandbox.seccomp import Policy, compile_filter

_FOLDER = "/program"
_TMP = "/".join(("", "tmp"))  # inside the sandbox, where no other program writes
# User IDs that no machine uses. RLIMIT_NPROC counts all processes of a user, so each run has another user.
_FIRST_USER, _USERS = 0x70000000, 1 << 24
_UNSHARE = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")


@dataclass(frozen=True, kw_only=True)
class Bubblewrap:
    """With `drop_privileges`, root creates the sandbox without a user namespace and then switches to an
    unprivileged user."""

    drop_privileges: bool = False

    @contextmanager
    def start(self, job: Job, descriptors: JobDescriptors) -> Generator[subprocess.Popen[bytes]]:
        with ExitStack() as stack:
            calls = stack.enter_context(sealed_memfd(compile_filter(self._policy(job))))
            files = {
                f"{_FOLDER}/{name}": stack.enter_context(sealed_memfd(content))
                for name, content in job.files().items()
            }
            command = [
                _find_tool("bwrap"),
                *self._isolation_arguments(job, files, calls),
                "--",
                *self._user_arguments(),
            ]
            command += [*self._limit_arguments(job), *job.command(_FOLDER, descriptors.started)]
            process = subprocess.Popen(
                command,
                stdin=descriptors.input,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(job.language.environment),
                cwd="/",
                pass_fds=(calls, descriptors.started, *files.values()),
                start_new_session=True,
            )
        yield process

    @property
    def counts_processes(self) -> bool:
        """Whether the kernel limits the number of processes.

        It does not limit root, not even inside a user namespace.
        """
        return self.drop_privileges or os.getuid() != 0

    def _policy(self, job: Job) -> Policy:
        return Policy(
            processes=job.limits.processes > 1 and self.counts_processes, threads=self.counts_processes
        )

    def _isolation_arguments(self, job: Job, files: dict[str, int], calls: int) -> Sequence[str]:
        rights = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if self.drop_privileges else ()
        return [
            *_UNSHARE,
            *(() if self.drop_privileges else ("--unshare-user",)),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL", *rights),
            *_system_binds(),
            *(part for folder in job.language.read_folders() for part in _readonly_bind(folder)),
            *("--dev", "/dev", "--perms", "0755", "--dir", _FOLDER),
            *(
                part
                for path, descriptor in files.items()
                for part in ("--perms", "0444", "--ro-bind-data", str(descriptor), path)
            ),
            *_tmpfs(job.limits.disk_mb),
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--chdir", _TMP if job.limits.disk_mb else _FOLDER, "--seccomp", str(calls)),
        ]

    def _user_arguments(self) -> Sequence[str]:
        if not self.drop_privileges:
            return []
        user = str(_FIRST_USER + secrets.randbelow(_USERS))
        return [
            _find_tool("setpriv"),
            "--reuid",
            user,
            "--regid",
            user,
            "--clear-groups",
            "--inh-caps=-all",
            "--",
        ]

    def _limit_arguments(self, job: Job) -> Sequence[str]:
        # The first process of the sandbox counts, too.
        limits = job.limits.process_limits(threads=MAX_THREADS + job.limits.processes + 1)
        hard = {**limits, "cpu": f"{limits['cpu']}:{limits['cpu'] + 1}"}
        return [_find_tool("prlimit"), *(f"--{name}={value}" for name, value in hard.items()), "--"]


def _find_tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{name} is not installed")
    return path


def _system_binds() -> Sequence[str]:
    """Arguments that bind /usr and the system folders (or the links to /usr) of this machine."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, ("/bin", "/lib", "/lib32", "/lib64", "/sbin")):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _readonly_bind(folder: str) -> Sequence[str]:
    """Arguments that bind a folder at its own path. All users can traverse its parents, which are empty."""
    above = [str(path) for path in Path(folder).parents if str(path) != "/"]
    parents = [part for path in reversed(above) for part in ("--perms", "0755", "--dir", path)]
    return [*parents, "--ro-bind", folder, folder]


def _tmpfs(disk_mb: int) -> Sequence[str]:
    if not disk_mb:
        return []
    return ["--perms", "1777", "--size", str(disk_mb * MIB), "--tmpfs", _TMP]

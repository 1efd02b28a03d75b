"""Selects the sandbox for programs, and tests its isolation before the first program runs.

No program ever runs outside a sandbox. If no sandbox works, the step fails with advice.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from posttrain.runtime.errors import StepError
from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Job, Sandbox
from posttrain.runtime.sandbox.landlock import Landlock, landlock_abi_version
from posttrain.runtime.sandbox.languages import load_language
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.process_runner import run
from posttrain.runtime.sandbox.seccomp import UnsupportedMachine

SandboxType = Literal["namespaces", "landlock"]

_INSTALL_ADVICE = "install it: apt-get install bubblewrap util-linux"
_NO_NAMESPACES_ADVICE = (
    "in a container, or on a system where users cannot create namespaces, set `sandbox: landlock`; it is"
    " weaker, see docs/sandbox.md"
)
_NO_LANDLOCK_ADVICE = (
    "use Linux 5.13 or later with Landlock enabled, or run this step on a machine where bubblewrap works,"
    " with `sandbox: namespaces`"
)
# Looks for gaps in the isolation, and prints them as JSON.
_LEAK_PROBE = """
import json, os, sys
found = []
try:
    open(sys.stdin.readline().strip())
    found.append("files of the host are readable")
except OSError:
    pass
if len(os.environ) > 8:
    found.append("the environment of the host is visible")
for place in ("/", "/usr", "/dev/shm", "/tmp", os.getcwd()):
    try:
        open(os.path.join(place, "posttrain-probe"), "w")
        found.append(place + " is writable")
    except OSError:
        pass
print(json.dumps(found))
"""
_NETWORK_PROBE = "import socket; socket.socket(); print('a socket')"
_FORK_PROBE = "import os; os.fork(); print('two processes')"
_PROBE_LIMITS = Limits(seconds=30.0)


@cache
def select_sandbox(sandbox_type: SandboxType) -> Sandbox:
    """A sandbox of this type that works on this machine. Raise StepError if there is none."""
    if not sys.platform.startswith("linux"):
        message = "the sandbox for programs needs Linux"
        raise StepError(message, "run this step on Linux, or in a container with `sandbox: landlock`")
    failures: list[str] = []
    for sandbox in _CANDIDATES[sandbox_type]():
        try:
            failure = _find_leak(sandbox)
        except (OSError, UnsupportedMachine) as error:
            failure = str(error)
        if failure is None:
            return sandbox
        failures.append(failure)
    why = "; ".join(dict.fromkeys(failures)) or "the kernel does not have Landlock, or Landlock is disabled"
    message = f"the sandbox `{sandbox_type}` does not work on this machine: {why}"
    raise StepError(message, _advice(sandbox_type, why))


def _advice(sandbox_type: SandboxType, why: str) -> str:
    if sandbox_type == "landlock":
        return _NO_LANDLOCK_ADVICE
    return _INSTALL_ADVICE if "not installed" in why else _NO_NAMESPACES_ADVICE


def _namespaces() -> Sequence[Sandbox]:
    """Root tries to drop privileges first, because the kernel does not limit the processes of root."""
    return [Bubblewrap(drop_privileges=True), Bubblewrap()] if os.getuid() == 0 else [Bubblewrap()]


def _landlock() -> Sequence[Sandbox]:
    return [Landlock()] if landlock_abi_version() else []


_CANDIDATES: dict[SandboxType, Callable[[], Sequence[Sandbox]]] = {
    "namespaces": _namespaces,
    "landlock": _landlock,
}


def _find_leak(sandbox: Sandbox) -> str | None:
    """The gaps in the isolation of a sandbox, or None if it has none."""
    with tempfile.NamedTemporaryFile(prefix="posttrain-sandbox.") as secret:
        ended = run(sandbox, _probe_job(_LEAK_PROBE, secret.name.encode()))
    if ended.outcome != "exited" or ended.status:
        return ended.last_error_line or f"the sandbox does not start (status {ended.status})"
    leaks: list[str] = json.loads(ended.output)
    if leaks:
        return "; ".join(leaks)
    for program, leak in (
        (_NETWORK_PROBE, "the network is accessible"),
        (_FORK_PROBE, "a program can start processes"),
    ):
        if run(sandbox, _probe_job(program)).status != 159:  # SIGSYS, from the seccomp filter
            return leak
    return None


def _probe_job(program: str, stdin: bytes = b"") -> Job:
    return Job(language=load_language("python"), program=program.encode(), input=stdin, limits=_PROBE_LIMITS)

"""Chooses the box that programs run in, and proves before the first of them that it holds.

Nothing ever runs outside a box: where none can be made, the step ends with what to do about it.
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

Containment = Literal["namespaces", "landlock"]

_INSTALL_ADVICE = "install it: apt-get install bubblewrap util-linux"
_NO_NAMESPACES_ADVICE = (
    "inside a container, or where users may not make namespaces, `containment: landlock` declares the weaker"
    " box of docs/sandbox.md"
)
_NO_LANDLOCK_ADVICE = (
    "it needs a kernel with Landlock, 5.13 or later; else run this step where bubblewrap works, with"
    " `containment: namespaces`"
)
# Looks for what must not be there. What it finds is told as JSON.
_LEAK_PROBE = """
import json, os, sys
found = []
try:
    open(sys.stdin.readline().strip())
    found.append("files of the machine can be read")
except OSError:
    pass
if len(os.environ) > 8:
    found.append("the environment is the machine's")
for place in ("/", "/usr", "/dev/shm", "/tmp", os.getcwd()):
    try:
        open(os.path.join(place, "posttrain-probe"), "w")
        found.append(place + " can be written to")
    except OSError:
        pass
print(json.dumps(found))
"""
_NETWORK_PROBE = "import socket; socket.socket(); print('a socket')"
_FORK_PROBE = "import os; os.fork(); print('two processes')"
_PROBE_LIMITS = Limits(seconds=30.0)


@cache
def select_sandbox(containment: Containment) -> Sandbox:
    """A box of this kind, as this machine can make it."""
    if not sys.platform.startswith("linux"):
        message = "programs are contained by Linux alone"
        raise StepError(message, "run this step on Linux, or in a container with `containment: landlock`")
    faults: list[str] = []
    for kind in _CANDIDATES[containment]():
        try:
            fault = _find_leak(kind)
        except (OSError, UnsupportedMachine) as error:
            fault = str(error)
        if fault is None:
            return kind
        faults.append(fault)
    why = "; ".join(dict.fromkeys(faults)) or "the kernel has no Landlock, or it may not be used"
    raise StepError(f"programs cannot be contained by {containment} here: {why}", _advice(containment, why))


def _advice(containment: Containment, why: str) -> str:
    if containment == "landlock":
        return _NO_LANDLOCK_ADVICE
    return _INSTALL_ADVICE if "not installed" in why else _NO_NAMESPACES_ADVICE


def _namespaces() -> Sequence[Sandbox]:
    """Root's own way first: there the kernel counts processes."""
    return [Bubblewrap(drop_privileges=True), Bubblewrap()] if os.getuid() == 0 else [Bubblewrap()]


def _landlock() -> Sequence[Sandbox]:
    return [Landlock()] if landlock_abi_version() else []


_CANDIDATES: dict[Containment, Callable[[], Sequence[Sandbox]]] = {
    "namespaces": _namespaces,
    "landlock": _landlock,
}


def _find_leak(kind: Sandbox) -> str | None:
    """What is wrong with a box; None when it holds."""
    with tempfile.NamedTemporaryFile(prefix="posttrain-box.") as secret:
        ended = run(kind, _probe_job(_LEAK_PROBE, secret.name.encode()))
    if ended.outcome != "exited" or ended.status:
        return ended.last_error_line or f"the box does not start (status {ended.status})"
    found: list[str] = json.loads(ended.output)
    if found:
        return "; ".join(found)
    for program, what in ((_NETWORK_PROBE, "the network"), (_FORK_PROBE, "further processes")):
        if run(kind, _probe_job(program)).status != 159:  # ended by the filter
            return f"{what} can be had"
    return None


def _probe_job(program: str, given: bytes = b"") -> Job:
    return Job(language=load_language("python"), program=program.encode(), input=given, limits=_PROBE_LIMITS)

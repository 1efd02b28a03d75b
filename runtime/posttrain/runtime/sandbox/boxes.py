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

from posttrain.runtime.faults import StepFault
from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Box, Job
from posttrain.runtime.sandbox.landlock import Landlock, version
from posttrain.runtime.sandbox.languages import language
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.running import run
from posttrain.runtime.sandbox.seccomp import Unsupported

Containment = Literal["namespaces", "landlock"]

_MISSING = "install it: apt-get install bubblewrap util-linux"
_NOT_ALLOWED = (
    "inside a container, or where users may not make namespaces, `containment: landlock` declares the weaker"
    " box of docs/sandbox.md"
)
_NO_LANDLOCK = (
    "it needs a kernel with Landlock, 5.13 or later; else run this step where bubblewrap works, with"
    " `containment: namespaces`"
)
# Looks for what must not be there. What it finds is told as JSON.
_LOOKS = """
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
_REACHES_OUT = "import socket; socket.socket(); print('a socket')"
_FORKS = "import os; os.fork(); print('two processes')"
_LIMITS = Limits(seconds=30.0)


@cache
def box(containment: Containment) -> Box:
    """A box of this kind, as this machine can make it."""
    if not sys.platform.startswith("linux"):
        message = "programs are contained by Linux alone"
        raise StepFault(message, "run this step on Linux, or in a container with `containment: landlock`")
    faults: list[str] = []
    for kind in _KINDS[containment]():
        try:
            fault = _leak(kind)
        except (OSError, Unsupported) as error:
            fault = str(error)
        if fault is None:
            return kind
        faults.append(fault)
    why = "; ".join(dict.fromkeys(faults)) or "the kernel has no Landlock, or it may not be used"
    raise StepFault(f"programs cannot be contained by {containment} here: {why}", _advice(containment, why))


def _advice(containment: Containment, why: str) -> str:
    if containment == "landlock":
        return _NO_LANDLOCK
    return _MISSING if "not installed" in why else _NOT_ALLOWED


def _namespaces() -> Sequence[Box]:
    """Root's own way first: there the kernel counts processes."""
    return [Bubblewrap(dropping=True), Bubblewrap()] if os.getuid() == 0 else [Bubblewrap()]


def _landlock() -> Sequence[Box]:
    return [Landlock()] if version() else []


_KINDS: dict[Containment, Callable[[], Sequence[Box]]] = {
    "namespaces": _namespaces,
    "landlock": _landlock,
}


def _leak(kind: Box) -> str | None:
    """What is wrong with a box; None when it holds."""
    with tempfile.NamedTemporaryFile(prefix="posttrain-box.") as secret:
        ended = run(kind, _job(_LOOKS, secret.name.encode()))
    if ended.how != "exited" or ended.status:
        return ended.last_words or f"the box does not start (status {ended.status})"
    found: list[str] = json.loads(ended.output)
    if found:
        return "; ".join(found)
    for program, what in ((_REACHES_OUT, "the network"), (_FORKS, "further processes")):
        if run(kind, _job(program)).status != 159:  # ended by the filter
            return f"{what} can be had"
    return None


def _job(program: str, given: bytes = b"") -> Job:
    return Job(language=language("python"), program=program.encode(), input=given, limits=_LIMITS)

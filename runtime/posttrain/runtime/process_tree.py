"""Ends processes with all that they started, also those that have left the process group or the session.

A subreaper is the parent of every descendant whose own parent has ended. Below a subreaper, a walk over /proc
therefore finds every process, whatever it calls (setsid, a double fork), until the subreaper itself ends.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

# What a program has to exit after SIGTERM when nothing waits for its result.
GRACE_SECONDS = 10.0
KILL_SECONDS = 10.0  # a process in a system call dies when the call returns
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PARENT_IS_GONE = 1  # exit status
_PAUSE_SECONDS = 0.005


def die_with_parent(parent: int, how: int = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(how))
    if os.getppid() != parent:  # the parent died before the prctl call
        os._exit(_PARENT_IS_GONE)


def become_subreaper() -> None:
    """Make this process the parent of its descendants whose parents end."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(root: int) -> list[int]:
    """The living descendants of a process, parents before their children. Zombies are not among them."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (stat := _read_stat(int(entry.name))) is not None:
            parent, state = stat
            if state not in ("Z", "X"):
                children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def end_descendants(spared: Collection[int] = (), *, grace_seconds: float = 0.0) -> None:
    """End the descendants of this process, without those that are in `spared` or descend from one.

    With a grace time, they receive SIGTERM first.
    """
    if grace_seconds:
        terminate_descendants(spared)
        deadline = time.monotonic() + grace_seconds
        while _unspared(os.getpid(), spared) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
    _kill_until_none(os.getpid(), spared)


def terminate_descendants(spared: Collection[int] = ()) -> None:
    """Send SIGTERM to the descendants of this process."""
    for pid in _unspared(os.getpid(), spared):
        _signal(pid, signal.SIGTERM)


def kill_tree(root: int) -> None:
    """Kill a process, which should be a subreaper, and all of its descendants.

    If the caller dies meanwhile, the process remains, stopped: see `kill_supervised` of `child_process.py`.
    """
    # A stopped process starts no others, and remains the parent of the orphans.
    _signal(root, signal.SIGSTOP)
    _kill_until_none(root)
    _signal(root, signal.SIGKILL)


def _kill_until_none(root: int, spared: Collection[int] = ()) -> None:
    """Kill the descendants, again and again while they start others."""
    deadline = time.monotonic() + KILL_SECONDS
    while (alive := _unspared(root, spared)) and time.monotonic() < deadline:
        for pid in alive:
            _signal(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


def _unspared(root: int, spared: Collection[int]) -> list[int]:
    alive = descendants(root)
    excluded = {*spared, *(pid for one in spared for pid in descendants(one))} if spared else set[int]()
    return [pid for pid in alive if pid not in excluded]


def _signal(pid: int, number: int) -> None:
    # The process has ended, or changed its user.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _read_stat(pid: int) -> tuple[int, str] | None:
    """The parent and the state of a process; None when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0]

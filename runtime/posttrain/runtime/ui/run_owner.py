"""Stops a run of another process at its next checkpoints, as Ctrl-C in its terminal does.

The journal names the process that started the run. A process of that number receives the signal only if it
holds the lock of the run: a number can belong to another process by now.
"""

import contextlib
import os
import signal
from collections.abc import Generator
from pathlib import Path
from sqlite3 import DatabaseError

from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal


class StopRefused(Exception):
    """Why a run cannot be stopped from here."""


def request_stop(home: Home, run: Path) -> None:
    """Send SIGTERM to the client of a run: its steps save a checkpoint and end. Raises `StopRefused`."""
    with owner_process(home, run) as (pid, descriptor):
        if not _handles(pid, signal.SIGTERM):
            raise StopRefused(
                f"the process {pid}, which runs it, does not handle SIGTERM; stop it where it was started"
            )
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        except PermissionError:
            raise StopRefused(f"the process {pid} belongs to another user") from None
        except ProcessLookupError:
            raise StopRefused("the run has just ended") from None


@contextlib.contextmanager
def owner_process(home: Home, run: Path) -> Generator[tuple[int, int]]:
    """The process that runs a run, and a descriptor that refers to it and to no later one."""
    pid = _recorded_pid(run)
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        raise StopRefused(f"the process {pid}, which ran it, has ended or is on another machine") from None
    try:
        if not _has_open(pid, home.run_lock(run)):
            raise StopRefused(
                f"the process {pid} does not hold the lock of the run: the run has ended, or its client is on"
                " another machine"
            )
        yield pid, descriptor
    finally:
        os.close(descriptor)


def _recorded_pid(run: Path) -> int:
    try:
        journal = Journal(run / "journal.sqlite", read=True)
        try:
            pid = journal.get("pid")
        finally:
            journal.close()
    except (DamagedJournal, DatabaseError, OSError) as error:
        raise StopRefused(f"the journal is not readable ({error})") from None
    if not isinstance(pid, int) or isinstance(pid, bool) or not 1 < pid < 1 << 31:
        raise StopRefused("the journal names no process")
    return pid


def _has_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open."""
    try:
        wanted = path.stat()
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(wanted, entry.stat()):
                    return True
    except OSError:
        pass
    return False


def _handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal; else the signal would kill it, or have no effect."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return False
    return bool(caught >> (number - 1) & 1)

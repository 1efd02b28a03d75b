"""Reads the processes of a run from /proc."""

import contextlib
import os
import signal
from pathlib import Path


def descendants(client: int) -> list[int]:
    """All descendants of the client."""
    found: list[int] = []
    for pid in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if parent_pid(pid) in (client, *found):
            found.append(pid)
    return found


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def parent_pid(pid: int) -> int | None:
    stat = _read_stat(pid)
    return int(stat[1]) if stat else None


def is_alive(pid: int) -> bool:
    stat = _read_stat(pid)
    return bool(stat) and stat[0] != "Z"


def _read_stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def kill_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

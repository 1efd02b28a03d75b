"""Claim files: they lock between machines where `flock` holds on one machine only, or does not work.

The folder of the locks has the file `use-claims` then (`use_claims`). The holder of a lock on a machine also
has the claim `NAME.claim`, with the identity of the machine; the first claim counts. A claim of this machine
is free as soon as its lock is. The claim of another machine is broken only if nobody renewed it for two
minutes and the caller knows that the work behind it is over: for a step on a cluster, its engine says so.
"""

import contextlib
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

_MARKER = "use-claims"
_RENEW_SECONDS = 15.0
_STALE_SECONDS = 120.0


def use_claims(folder: Path) -> None:
    """Lock in this folder also with claims, from now on and on all machines."""
    (folder / _MARKER).touch()


def uses_claims(folder: Path) -> bool:
    return (folder / _MARKER).exists()


def machine_identity() -> str:
    """Differs between machines, and from one start of a machine to the next."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()


class Claim:
    """The claim of a lock that this process holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def release(self) -> None:
        _held.discard(self.path)
        self.path.unlink(missing_ok=True)


def claim_path(lock: Path) -> Path:
    return lock.with_suffix(".claim")


def take_claim(lock: Path, is_over: Callable[[], bool] | None = None) -> Claim | None:
    """The claim, or None when another machine has it. The caller holds the lock of this machine.

    `is_over` says whether the work behind a claim that nobody renews has ended. Without it, no claim of
    another machine is broken.
    """
    path = claim_path(lock)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    owner = {"machine": machine_identity(), "node": platform.node(), "pid": os.getpid()}
    temporary.write_text(json.dumps(owner), encoding="utf-8")
    try:
        while True:
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(temporary)
                _held.add(path)
                return Claim(path)
            if not _is_free(path, is_over):
                return None
            path.unlink(missing_ok=True)
    finally:
        temporary.unlink(missing_ok=True)


def is_claimed_elsewhere(lock: Path) -> bool:
    """Whether another machine has the claim."""
    owner = _owner(claim_path(lock))
    return owner not in (None, machine_identity())


def _is_free(path: Path, is_over: Callable[[], bool] | None) -> bool:
    if _owner(path) in (None, machine_identity()):
        return True  # its process is dead: the caller has its lock
    is_stale = _renewals.is_stale(path)
    return is_stale and is_over is not None and is_over()


def stale_claim(lock: Path) -> str | None:
    """A claim that this process waits for and that nobody renews, with what to do; None if there is none."""
    path = claim_path(lock)
    if _owner(path) in (None, machine_identity()) or not _renewals.is_stale(path):
        return None
    node = _owner(path, "node")
    return f"waits for a run on {node}, which does not renew {path}: delete the file if that run has ended"


def _owner(path: Path, field: str = "machine") -> str | None:
    """The identity of the machine of a claim, or its name; None if there is no claim."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))[field])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"


class _HeldClaims:
    """Renews the claims of this process: their time of modification shows that it lives."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, path: Path) -> None:
        with self._lock:
            self._paths.add(path)
            if self._thread is None:
                self._thread = threading.Thread(target=self._renew, name="lock claims", daemon=True)
                self._thread.start()

    def discard(self, path: Path) -> None:
        with self._lock:
            self._paths.discard(path)

    def _renew(self) -> None:
        while True:
            time.sleep(_RENEW_SECONDS)
            with self._lock:
                for path in self._paths:
                    with contextlib.suppress(OSError):
                        os.utime(path)


class _Renewals:
    """When the claims of others were last seen to change, on the clock of this process: clocks differ."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[tuple[int, int], float]] = {}

    def is_stale(self, path: Path) -> bool:
        try:
            found = path.stat()
        except FileNotFoundError:
            return False
        state, now = (found.st_ino, found.st_mtime_ns), time.monotonic()
        before = self._seen.get(path)
        if before is None or before[0] != state:
            self._seen[path] = (state, now)
            return False
        return now - before[1] > _STALE_SECONDS


_held = _HeldClaims()
_renewals = _Renewals()

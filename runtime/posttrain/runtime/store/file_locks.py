"""File locks that the kernel releases when their last holder dies."""

import fcntl
import os
import time
from pathlib import Path


class Lock:
    """An exclusive lock on a file. Processes that inherit `descriptor` hold it too."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def release(self) -> None:
        # Close instead of unlock: a worker that still runs keeps the lock that it inherited.
        os.close(self.descriptor)

    def discard(self) -> None:
        """Release the lock and remove its file."""
        self.path.unlink(missing_ok=True)
        self.release()


def try_lock(path: Path) -> Lock | None:
    """The lock, or None when another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_same_file(path, descriptor):
            return Lock(path, descriptor)
        os.close(descriptor)  # removed between open and lock: no other process sees this file


def acquire_lock(path: Path) -> Lock:
    """Wait until the lock is free, and take it."""
    while (lock := try_lock(path)) is None:
        time.sleep(0.01)
    return lock


def is_held(path: Path) -> bool:
    """Whether a process holds the lock. Creates no file."""
    if not path.exists():
        return False
    lock = try_lock(path)
    if lock is not None:
        lock.release()
    return lock is None


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

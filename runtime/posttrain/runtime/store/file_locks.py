"""Locks that the kernel frees when their last holder dies, however it dies."""

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
        # Closing, not unlocking: a worker that is still alive keeps what it inherited.
        os.close(self.descriptor)

    def discard(self) -> None:
        """Release the lock and remove its file."""
        self.path.unlink(missing_ok=True)
        self.release()


def try_lock(path: Path) -> Lock | None:
    """The lock, or None when somebody else holds it."""
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
        os.close(descriptor)  # it was removed after we had opened it: nobody else sees this lock


def acquire_lock(path: Path) -> Lock:
    """The lock, as soon as it is free."""
    while (found := try_lock(path)) is None:
        time.sleep(0.01)
    return found


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock. Makes no file."""
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

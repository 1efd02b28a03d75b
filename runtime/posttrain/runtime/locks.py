"""Locks that the kernel frees when their last holder dies, however it dies."""

import fcntl
import os
from pathlib import Path


class Lock:
    """An exclusive lock on a file. Processes that inherit `descriptor` hold it too."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def release(self) -> None:
        # Closing, not unlocking: a worker that is still alive keeps what it inherited.
        os.close(self.descriptor)


def try_lock(path: Path) -> Lock | None:
    """The lock, or None when somebody else holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return Lock(path, descriptor)

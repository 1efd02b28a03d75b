"""File locks that the kernel releases when their last holder dies.

Where they hold on one machine only, claim files lock between machines (`lock_claims.py`).
"""

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from posttrain.runtime.store.lock_claims import Claim, is_claimed_elsewhere, take_claim, uses_claims
from posttrain.spec.keys import digest

# The file system has no `flock`.
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class Lock:
    """An exclusive lock on a file. Processes that inherit `descriptor` hold it too."""

    def __init__(self, path: Path, descriptor: int, claim: Claim | None = None) -> None:
        self.path = path
        self.descriptor = descriptor
        self._claim = claim

    def release(self) -> None:
        if self._claim is not None:
            self._claim.release()
        # Close instead of unlock: a worker that still runs keeps the lock that it inherited.
        os.close(self.descriptor)

    def discard(self) -> None:
        """Release the lock and remove its file."""
        self.path.unlink(missing_ok=True)
        self.release()


def try_lock(path: Path, is_over: Callable[[], bool] | None = None) -> Lock | None:
    """The lock, or None when another process holds it.

    `is_over` says whether the work of another machine that does not renew its claim has ended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _lock_file(path)
    if descriptor is None:
        return None
    if not uses_claims(path.parent):
        return Lock(path, descriptor)
    claim = take_claim(path, is_over)
    if claim is None:
        os.close(descriptor)
        return None
    return Lock(path, descriptor, claim)


def _lock_file(path: Path) -> int | None:
    """A descriptor of the locked file."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            if error.errno in _UNSUPPORTED and not _is_local(path):
                return _lock_file(_local_file(path))
            raise
        if _is_same_file(path, descriptor):
            return descriptor
        os.close(descriptor)  # removed between open and lock: no other process sees this file


def _local_file(path: Path) -> Path:
    """The file whose lock counts on this machine, for a file system without locks."""
    folder = Path(tempfile.gettempdir()) / f"posttrain-locks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{digest([str(path.absolute())])[:32]}.lock"


def _is_local(path: Path) -> bool:
    return path.parent == _local_file(path).parent


def acquire_lock(path: Path) -> Lock:
    """Wait until the lock is free, and take it."""
    while (lock := try_lock(path)) is None:
        time.sleep(0.01)
    return lock


def is_held(path: Path) -> bool:
    """Whether a process holds the lock. Creates no file."""
    if not path.exists():
        return False
    if uses_claims(path.parent) and is_claimed_elsewhere(path):
        return True
    descriptor = _lock_file(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

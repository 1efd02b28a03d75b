"""A tmpfs for a home, which can be resized during a run."""

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

LARGE_BYTES = 4 << 30


@contextlib.contextmanager
def resizable_tmpfs(home: Path, *, wanted: bool) -> Generator[None]:
    """Mount a resizable tmpfs at the home, if enabled."""
    home.mkdir()
    if not wanted:
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LARGE_BYTES}", "tmpfs", str(home)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(home)], check=True)


def can_mount(folder: Path) -> bool:
    """Whether this user has the permission to mount a file system."""
    folder.mkdir(exist_ok=True)
    tried = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if tried.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)
    return tried.returncode == 0


def resize(home: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(home)], check=True)


def used_bytes(home: Path) -> int:
    found = os.statvfs(home)
    return (found.f_blocks - found.f_bfree) * found.f_frsize

"""What was fetched from registries, addressed by digest, so that a second use needs no network."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.registry.oci_manifest import digest_of
from posttrain.runtime.user_cache import cache_folder, cached_blob

_ATTEMPTS = 10
_PARTIAL = ".partial"
# Nobody continues a download or an upload after a week: registries have discarded it by then.
_LEFTOVER_SECONDS = 7 * 86_400


def blob_path(digest: str) -> Path:
    """Where the blob with a digest is kept."""
    return cached_blob(digest.removeprefix("sha256:"))


def read_cached(digest: str) -> bytes | None:
    """A small blob, if it is cached and matches its digest."""
    try:
        data = blob_path(digest).read_bytes()
    except OSError:
        return None
    return data if digest_of(data) == digest else None


def is_cached(digest: str) -> bool:
    """Whether a blob is cached and matches its digest."""
    path = blob_path(digest)
    return path.is_file() and f"sha256:{atomic_io.sha256_file(path)}" == digest


def write_cached(data: bytes) -> None:
    path = blob_path(digest_of(data))
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_file(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def temporary_file(path: Path) -> Generator[Path]:
    """A new file next to a path, which replaces it at the end."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:32]}.", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def partial_file(path: Path) -> Generator[Path]:
    """The file in which a download to a path is kept until it is complete. After an interruption, the next
    download continues it; a second process at the same time gets another file."""
    partial = path.with_name(f".{path.name}{_PARTIAL}")
    with partial.open("ab") as held:
        is_ours = try_flock(held.fileno()) and _is_same_file(partial, held.fileno())
        if is_ours:
            yield partial
            partial.chmod(0o644)
            partial.replace(path)
    if not is_ours:
        with temporary_file(path) as temporary:
            yield temporary


def try_flock(descriptor: int, unsupported: bool = False) -> bool:
    """Lock an open file or folder until it is closed; false if another process has it locked.

    `unsupported` is returned where the file system has no such locks, as NFS has none for folders.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unsupported
    return True


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:  # another process has completed it
        return False


def remove_leftovers(now: float) -> None:
    """Delete what killed commands have left in the cache."""
    blobs = blob_path("any").parent
    for folder in (blobs, cache_folder() / "recipes", cache_folder() / "uploads"):
        for path in folder.iterdir() if folder.is_dir() else ():
            is_leftover = path.name.startswith(".") or folder.name == "uploads"
            with suppress(OSError):  # another process deletes it, or the cache is read-only
                if is_leftover and path.stat().st_mtime < now - _LEFTOVER_SECONDS:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def temporary_folder(path: Path, is_intact: Callable[[], bool]) -> Generator[Path]:
    """A new folder next to a path, which becomes that folder at the end. A folder that another process has
    made meanwhile is kept if it is intact: its user may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name[:32]}.", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        _replace_folder(temporary, path, is_intact)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, path: Path, is_intact: Callable[[], bool]) -> None:
    """Rename a folder. Another process can create the old one again between its removal and the rename."""
    for attempt in range(_ATTEMPTS):
        try:
            new.replace(path)
            return
        except OSError:
            if is_intact():
                return
            if attempt == _ATTEMPTS - 1 or not path.is_dir():
                raise
            shutil.rmtree(path, ignore_errors=True)

"""Writes files atomically and durably: after a crash, a file is either complete or absent."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str, *, sync: bool = True, create_folder: bool = True) -> None:
    """Replace a file atomically: readers see the old text or the new text, never a part of it.

    Without `sync` the guarantee covers a crash of this process, but not of the machine.
    """
    if create_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def write_json(path: Path, value: Any, *, sync: bool = True, create_folder: bool = True) -> None:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n"
    write_text(path, text, sync=sync, create_folder=create_folder)


def read_json(path: Path) -> Any:
    """The JSON value of a file, or None when the file is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Flush a finished folder to the disk: every file, then every folder."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            descriptor = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(folder))


def sha256_file(path: Path) -> str:
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def iter_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Every file below a folder with its relative path, sorted."""
    found = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in sorted(found):
        yield path.relative_to(root).as_posix(), path


def file_digests(root: Path) -> dict[str, dict[str, Any]]:
    """The size and sha256 of every file below a folder."""
    return {
        name: {"size": path.stat().st_size, "sha256": sha256_file(path)} for name, path in iter_files(root)
    }


def sync_and_digest(root: Path) -> dict[str, dict[str, Any]]:
    """Flush a finished folder to the disk, and compute its digests in parallel."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        synced = pool.submit(sync_tree, root)
        digests = file_digests(root)
        synced.result()
    return digests

"""Replaces Git LFS pointers by their content, if this machine has it."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from posttrain.runtime.revisions.git_repository import Repository

_MAX_POINTER_BYTES = 1024
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n")


def fill_pointers(repository: Repository, tree: Path, current: Path) -> Iterator[str]:
    """Replace the pointers in a folder `tree`; yield the names of those whose content is not here.

    The content comes from the object store of LFS, or from the same file in the folder `current`.
    """
    objects: Path | None = None
    for path in sorted(tree.rglob("*")):
        oid = _pointer_oid(path)
        if oid is None:
            continue
        objects = objects or _object_folder(repository)
        name = path.relative_to(tree).as_posix()
        stored = objects / oid[:2] / oid[2:4] / oid
        source = next((one for one in (stored, current / name) if _has_digest(one, oid)), None)
        if source is None:
            yield name
        else:
            shutil.copyfile(source, path)


def _pointer_oid(path: Path) -> str | None:
    """The digest in a pointer; None for any other file."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_POINTER_BYTES:
        return None
    found = _POINTER.match(path.read_bytes())
    return found[1].decode() if found else None


def _object_folder(repository: Repository) -> Path:
    common = repository.git("rev-parse", "--git-common-dir").removesuffix("\n")
    return repository.top / common / "lfs" / "objects"


def _has_digest(path: Path, oid: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == oid

"""A folder for the user that is filled from an artifact: it appears when it is complete."""

import json
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from posttrain.runtime.artifacts.artifact_cache import try_flock
from posttrain.runtime.artifacts.artifact_paths import ORIGIN_FILE
from posttrain.runtime.registry.registry_errors import RegistryError

_STAGING = re.compile(r"\.(?P<target>.*)-[0-9a-f]{12}\.partial")


@contextmanager
def pulled_folder(target: Path, digest: str, origin: str) -> Generator[Path]:
    """A folder whose content becomes that of the target, which must be empty or new. It has the origin of its
    content already: an interrupted copy is no recipe of the user.

    After an interruption, the next use with the same digest continues it. Raises RegistryError.
    """
    staged = _staging_folder(target, digest)
    _remove_others(target, staged)
    staged.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(staged, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not try_flock(descriptor, unsupported=True):
            raise RegistryError(f"another command is writing to {target}", "wait until it has finished")
        # Not by way of a temporary file, which a killed command would leave here.
        (staged / ORIGIN_FILE).write_text(json.dumps({"origin": origin}) + "\n", encoding="utf-8")
        yield staged
        _move(staged, target)
    finally:
        os.close(descriptor)


def _staging_folder(target: Path, digest: str) -> Path:
    """Next to a new folder, so that one rename completes it; inside one that exists, which stays the same."""
    name = f".{target.name}-{digest[-12:]}.partial"
    if not os.path.lexists(target):
        return target.with_name(name)
    if target.is_dir():
        others = [path for path in target.iterdir() if _staged_target(path) != target.name]
    else:
        others = [target]
    if others:
        raise RegistryError(f"{target} exists and is not an empty folder", "name another folder")
    return target / name


def _staged_target(path: Path) -> str | None:
    """The name of the target if a path is a folder of this module."""
    found = _STAGING.fullmatch(path.name)
    return found["target"] if found and path.is_dir() and not path.is_symlink() else None


def _remove_others(target: Path, staged: Path) -> None:
    """Delete what interrupted commands have left of other artifacts for the same target."""
    for path in staged.parent.iterdir() if staged.parent.is_dir() else ():
        if path == staged or _staged_target(path) != target.name:
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            if try_flock(descriptor):
                shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _move(staged: Path, target: Path) -> None:
    try:
        if staged.parent != target:
            staged.rename(target)
            return
        for path in sorted(staged.iterdir()):  # the origin of a recipe first
            path.rename(target / path.name)
        staged.rmdir()
    except OSError as error:
        raise RegistryError(f"{target} cannot be written: {error.strerror}", "name another folder") from None

"""Arrow files of rows that processes map into memory, cached in the home by what determines them.

row-cache/KEY/entry.json       the size and the checksum of each file, and facts about the rows
row-cache/KEY/part-N.arrow     the rows, in order

An entry is written under another name and then renamed, so that it is complete when it has its name. Several
processes and machines can write the same entry: one of the equal results stays. A file that does not have its
checksum is never used: the entry is written again.
"""

import os
import shutil
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.installed_stack import installed_stack
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.home import Home
from posttrain.spec.keys import digest

_RECORD = "entry.json"
# The distributions whose release can change a row, its text or its tokens.
_STACK = ("datasets", "jinja2", "pyarrow", "tokenizers", "transformers", "trl")
# The folders of the runtime whose modules can change them. Those of `spec` count too.
_CODE = (".", "models", "training", "training_rows", "trl_compat")


@dataclass(frozen=True)
class ArrowEntry:
    """The files of an entry, in order, and the facts that its builder returned."""

    key: str
    files: Sequence[Path]
    facts: Mapping[str, Any]


def cache_folder(context: StepContext) -> Path:
    """The cache of the home. A step that cannot write there has a cache of its own."""
    shared = Home(context.work.parent.parent).row_cache
    try:
        shared.mkdir(exist_ok=True)
    except OSError:
        writable = False
    else:
        writable = os.access(shared, os.R_OK | os.W_OK | os.X_OK)
    return shared if writable else context.work / "scratch" / shared.name


def part_file(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05}.arrow"


def cached_entry(folder: Path, parts: Any, build: Callable[[Path], Mapping[str, Any]]) -> ArrowEntry:
    """Return the entry that `parts` determine. `build` writes its files into a folder and returns facts."""
    key = digest([parts, code_digest(), {name: installed_stack().get(name) for name in _STACK}])[:32]
    folder.mkdir(parents=True, exist_ok=True)
    found = _read_entry(folder / key, key)
    if found is not None:
        return found
    lock = acquire_lock(folder / f"{key}.lock")
    try:
        # Another process may have written it meanwhile.
        return _read_entry(folder / key, key) or _write_entry(folder, key, build)
    finally:
        lock.release()


@cache
def code_digest() -> str:
    """A digest of the code that reads, checks and tokenizes rows."""
    runtime, spec = Path(__file__).parents[1], Path(digest.__code__.co_filename).parent
    folders = [spec, *(runtime / name for name in _CODE)]
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    return digest([[file.name, atomic_io.sha256_file(file)] for file in files])


def _read_entry(folder: Path, key: str) -> ArrowEntry | None:
    """The entry, or None if there is none, or one that is damaged or not ours."""
    try:
        record = atomic_io.read_json(folder / _RECORD)
        if record["key"] != key or not isinstance(record["facts"], dict):
            return None
        files: list[Path] = []
        for name, expected in sorted(record["files"].items()):
            path = folder / name
            if Path(name).name != name or path.is_symlink() or path.stat().st_size != expected["size"]:
                return None
            if atomic_io.sha256_file(path) != expected["sha256"]:
                return None
            files.append(path)
        os.utime(folder)  # `recipe gc --older-than` counts from the last use
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return ArrowEntry(key, files, record["facts"])


def _write_entry(folder: Path, key: str, build: Callable[[Path], Mapping[str, Any]]) -> ArrowEntry:
    for abandoned in folder.glob(
        f"{key}.{socket.gethostname()}.*"
    ):  # its writer was killed: we hold the lock
        shutil.rmtree(abandoned, ignore_errors=True)
    building = folder / f"{key}.{socket.gethostname()}.{uuid.uuid4().hex}"
    building.mkdir()
    try:
        facts = dict(build(building))
        files = {
            path.name: {"size": path.stat().st_size, "sha256": atomic_io.sha256_file(path)}
            for path in sorted(building.iterdir())
        }
        atomic_io.write_json(building / _RECORD, {"key": key, "files": files, "facts": facts}, sync=False)
        _rename(building, folder / key)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return ArrowEntry(key, [folder / key / name for name in files], facts)


def _rename(building: Path, target: Path) -> None:
    """Give an entry its name. What has the name already is damaged, or equal and of another machine."""
    try:
        building.rename(target)
    except OSError:
        damaged = target.with_name(f"{building.name}.damaged")
        target.rename(damaged)
        building.rename(target)
        if damaged.is_dir() and not damaged.is_symlink():
            shutil.rmtree(damaged, ignore_errors=True)
        else:
            damaged.unlink(missing_ok=True)

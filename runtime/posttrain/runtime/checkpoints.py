"""Checkpoints of a step under way. One counts only when its own manifest is complete and true."""

import re
import shutil
from pathlib import Path

from posttrain.runtime import durable
from posttrain.runtime.keeping.seals import read_sealed, sealed

_NAME = re.compile(r"checkpoint-(\d+)\Z")
MANIFEST = "complete.json"


def seal(checkpoint: Path) -> None:
    """Bring a checkpoint to the disk and declare it complete."""
    digests = durable.digests(checkpoint)
    digests.pop(MANIFEST, None)
    durable.sync_tree(checkpoint)
    durable.write_json(checkpoint / MANIFEST, sealed({"files": digests}))
    durable.sync_folder(checkpoint.parent)


def prune(folder: Path, keep: int, also: Path | None = None) -> None:
    """Delete all but the newest complete checkpoints (and `also`): only after a newer one is sealed."""
    sealed = sealed_in(folder)[::-1]
    for path in sealed[keep:]:
        if path != also:
            (path / MANIFEST).unlink()  # first: a half-deleted checkpoint must not count
    for path in _all(folder):  # with these, what an earlier attempt left half written or half deleted
        if sealed and path not in sealed[:keep] and path != also and step_of(path) < step_of(sealed[0]):
            shutil.rmtree(path)


def latest(folder: Path) -> Path | None:
    """The newest checkpoint that is complete and undamaged. Others are removed."""
    for path in reversed(_all(folder)):
        if whole(path):
            return path
        shutil.rmtree(path)
    return None


def latest_step(folder: Path) -> int | None:
    """The step of the newest sealed checkpoint, judged by its manifest alone."""
    for path in reversed(_all(folder)):
        if (path / MANIFEST).exists():
            return step_of(path)
    return None


def sealed_in(folder: Path) -> list[Path]:
    """All checkpoints that claim to be complete, the oldest first."""
    return [path for path in _all(folder) if (path / MANIFEST).exists()]


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _all(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.match(path.name)]
    return sorted(found, key=step_of)


def whole(checkpoint: Path) -> bool:
    """Whether a checkpoint is as it was sealed."""
    manifest = read_sealed(checkpoint / MANIFEST)
    if manifest is None:
        return False
    try:
        return all(
            durable.sha256_of(checkpoint / name) == item["sha256"] for name, item in manifest["files"].items()
        )
    except OSError:
        return False

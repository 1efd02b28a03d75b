"""Checkpoints of a running step. A checkpoint is valid only with a complete, matching manifest.

Files are hashed with XXH3, which takes a quarter of the time of sha256. The hash only detects damage: a
checkpoint never leaves its machine and is not addressed by content.
"""

import re
import shutil
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.spec.document_json import DocumentError, NewerFormatError

_NAME = re.compile(r"checkpoint-(\d+)\Z")
MANIFEST = "complete.json"
_CHUNK_BYTES = 1 << 18  # fits in the CPU cache


def finalize(checkpoint: Path) -> None:
    """Flush a checkpoint to the disk and write its manifest, which declares it complete."""
    from posttrain.spec.document_reader import create_document
    from posttrain.spec.step_records import CheckpointManifest

    files = {
        name: {"xxh3": _xxh3(path)} for name, path in atomic_io.iter_files(checkpoint) if name != MANIFEST
    }
    atomic_io.sync_tree(checkpoint)
    write_document(checkpoint / MANIFEST, create_document(CheckpointManifest, files=files))
    atomic_io.sync_folder(checkpoint.parent)


def prune(folder: Path, keep: int, also: Path | None = None) -> None:
    """Delete all but the `keep` newest complete checkpoints and `also`. Call after a newer one is final."""
    complete = complete_checkpoints(folder)[::-1]
    for path in complete[keep:]:
        if path != also:
            (path / MANIFEST).unlink()  # first, so that a partly deleted checkpoint is invalid
    for path in _list_checkpoints(folder):  # includes the partial checkpoints of an earlier attempt
        if (
            complete
            and path not in complete[:keep]
            and path != also
            and checkpoint_step(path) < checkpoint_step(complete[0])
        ):
            shutil.rmtree(path)


def latest_intact(folder: Path) -> Path | None:
    """The newest complete and undamaged checkpoint. Newer, invalid ones are deleted.

    Raises StepError for a checkpoint of a newer release, which is not damaged.
    """
    for path in reversed(_list_checkpoints(folder)):
        try:
            check(path)
        except NewerFormatError as error:
            raise StepError(str(error), error.advice) from None
        except DocumentError:
            shutil.rmtree(path)
        else:
            return path
    return None


def latest_step(folder: Path) -> int | None:
    """The step of the newest checkpoint with a manifest, without verification."""
    for path in reversed(_list_checkpoints(folder)):
        if (path / MANIFEST).exists():
            return checkpoint_step(path)
    return None


def complete_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints with a manifest, the oldest first."""
    return [path for path in _list_checkpoints(folder) if (path / MANIFEST).exists()]


def checkpoint_step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _list_checkpoints(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.match(path.name)]
    return sorted(found, key=checkpoint_step)


def check(checkpoint: Path) -> None:
    """Compare a checkpoint with its manifest. Raises `DocumentError` when it is damaged."""
    from posttrain.spec.step_records import CheckpointManifest

    manifest = read_document(CheckpointManifest, checkpoint / MANIFEST)
    for name, item in manifest.files.items():
        try:
            matches = _xxh3(checkpoint / name) == item.xxh3
        except OSError:
            matches = False
        if not matches:
            raise DocumentError(f"{checkpoint / name} does not match {MANIFEST}", CheckpointManifest.ADVICE)


def _xxh3(path: Path) -> str:
    import xxhash

    found, part = xxhash.xxh3_128(), memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(part):
            found.update(part[:read])
    return found.hexdigest()

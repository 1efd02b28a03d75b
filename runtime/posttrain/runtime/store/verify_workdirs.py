"""Verifies the working directories of unfinished steps: checkpoints, receipts and dangling links.

A partial file has no manifest or receipt, and the next attempt ignores it. The verification does the same.
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.store import checkpoints, workdir
from posttrain.runtime.store.checksums import read_checksummed
from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress
from posttrain.runtime.store.verify_products import dangling_links


def verify_workdirs(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    folder = home.workdir("any").parent
    for work in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not work.is_dir():
            continue
        progress.count("unfinished steps")
        if is_held(home.step_lock(work.name)):
            progress.count("running steps, not checked")
            continue
        yield from _verify_workdir(work, progress)


def _verify_workdir(work: Path, progress: VerifyProgress) -> Iterator[Finding]:
    step = atomic_io.read_json(work / "record" / "step.json")
    id = str(step["id"]) if isinstance(step, dict) and "id" in step else "?"
    for path, what in _find_problems(work, progress):
        yield Finding(
            kind="work",
            name=work.name,
            step=id,
            problem=what,
            repair=partial(_remove, path),
            repair_note="removed: the step resumes from an intact checkpoint, or starts over",
        )


def _find_problems(work: Path, progress: VerifyProgress) -> Iterator[tuple[Path, str]]:
    """Each damaged file or folder, with the problem."""
    for checkpoint in checkpoints.complete_checkpoints(work / "checkpoints"):
        progress.count("checkpoints")
        if not checkpoints.is_intact(checkpoint):
            yield checkpoint, f"{checkpoint.name} does not match its manifest"
    receipt = work / "receipt.json"
    if receipt.exists():
        progress.count("receipts")
        if read_checksummed(receipt) is None:
            yield receipt, "its receipt does not match its checksum"
        elif not (work / "commit").exists() and workdir.load_receipt(work, check_digests=True) is None:
            yield receipt, "its product does not match its receipt"
    for link in dangling_links(work):
        yield link, f"the link {link.relative_to(work)} is dangling"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

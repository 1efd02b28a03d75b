"""Work that was cut off: checkpoints and receipts that claim to be whole, and links that lead nowhere.

What a kill leaves half written claims nothing: the next attempt passes over it, and so do we.
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
        progress.count("steps cut off")
        if is_held(home.step_lock(work.name)):
            progress.count("steps under way, left alone")
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
            repair_note="removed: the step goes on from what is whole",
        )


def _find_problems(work: Path, progress: VerifyProgress) -> Iterator[tuple[Path, str]]:
    """Each thing that is not what it claims to be, and how."""
    for checkpoint in checkpoints.complete_checkpoints(work / "checkpoints"):
        progress.count("checkpoints")
        if not checkpoints.is_intact(checkpoint):
            yield checkpoint, f"{checkpoint.name} does not match its manifest"
    receipt = work / "receipt.json"
    if receipt.exists():
        progress.count("receipts")
        if read_checksummed(receipt) is None:
            yield receipt, "its receipt does not match its checksum"
        elif not (work / "commit").exists() and workdir.load_receipt(work, left=True) is None:
            yield receipt, "its product is not what its receipt says"
    for link in dangling_links(work):
        yield link, f"the link {link.relative_to(work)} leads nowhere"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

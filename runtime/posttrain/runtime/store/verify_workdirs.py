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


def verify_workdirs(home: Home, looked: VerifyProgress) -> Iterator[Finding]:
    folder = home.workdir("any").parent
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not place.is_dir():
            continue
        looked.count("steps cut off")
        if is_held(home.step_lock(place.name)):
            looked.count("steps under way, left alone")
            continue
        yield from _verify_workdir(place, looked)


def _verify_workdir(place: Path, looked: VerifyProgress) -> Iterator[Finding]:
    step = atomic_io.read_json(place / "record" / "step.json")
    id = str(step["id"]) if isinstance(step, dict) and "id" in step else "?"
    for path, what in _find_problems(place, looked):
        yield Finding(
            kind="work",
            name=place.name,
            step=id,
            problem=what,
            repair=partial(_remove, path),
            repair_note="removed: the step goes on from what is whole",
        )


def _find_problems(place: Path, looked: VerifyProgress) -> Iterator[tuple[Path, str]]:
    """Each thing that is not what it claims to be, and how."""
    for checkpoint in checkpoints.complete_checkpoints(place / "checkpoints"):
        looked.count("checkpoints")
        if not checkpoints.is_intact(checkpoint):
            yield checkpoint, f"{checkpoint.name} is not as it was sealed"
    receipt = place / "receipt.json"
    if receipt.exists():
        looked.count("receipts")
        if read_checksummed(receipt) is None:
            yield receipt, "its receipt does not bear out its seal"
        elif not (place / "commit").exists() and workdir.load_receipt(place, left=True) is None:
            yield receipt, "its product is not what its receipt says"
    for link in dangling_links(place):
        yield link, f"the link {link.relative_to(place)} leads nowhere"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

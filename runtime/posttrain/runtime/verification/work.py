"""Work that was cut off: checkpoints and receipts that claim to be whole, and links that lead nowhere.

What a kill leaves half written claims nothing: the next attempt passes over it, and so do we.
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posttrain.runtime import checkpoints, durable, workplace
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.locks import is_held
from posttrain.runtime.keeping.seals import read_sealed
from posttrain.runtime.verification.finding import Finding, Looked
from posttrain.runtime.verification.products import dangling


def work(home: Home, looked: Looked) -> Iterator[Finding]:
    folder = home.work("any").parent
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not place.is_dir():
            continue
        looked.at("steps cut off")
        if is_held(home.lock(place.name)):
            looked.at("steps under way, left alone")
            continue
        yield from _one(place, looked)


def _one(place: Path, looked: Looked) -> Iterator[Finding]:
    step = durable.read_json(place / "record" / "step.json")
    id = str(step["id"]) if isinstance(step, dict) and "id" in step else "?"
    for path, what in _wrong(place, looked):
        yield Finding(
            of="work",
            name=place.name,
            step=id,
            what=what,
            mend=partial(_remove, path),
            mended="removed: the step goes on from what is whole",
        )


def _wrong(place: Path, looked: Looked) -> Iterator[tuple[Path, str]]:
    """Each thing that is not what it claims to be, and how."""
    for checkpoint in checkpoints.sealed_in(place / "checkpoints"):
        looked.at("checkpoints")
        if not checkpoints.whole(checkpoint):
            yield checkpoint, f"{checkpoint.name} is not as it was sealed"
    receipt = place / "receipt.json"
    if receipt.exists():
        looked.at("receipts")
        if read_sealed(receipt) is None:
            yield receipt, "its receipt does not bear out its seal"
        elif not (place / "commit").exists() and workplace.finished(place, left=True) is None:
            yield receipt, "its product is not what its receipt says"
    for link in dangling(place):
        yield link, f"the link {link.relative_to(place)} leads nowhere"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""The whole verification of a home, and its repair."""

from collections.abc import Iterator

from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.locks import Lock, try_lock
from posttrain.runtime.verification.finding import Finding, Looked
from posttrain.runtime.verification.products import products, volume
from posttrain.runtime.verification.runs import runs
from posttrain.runtime.verification.work import work


def verify(home: Home, looked: Looked) -> Iterator[Finding]:
    """All that is not as it was made. `looked` counts what was looked at."""
    yield from products(home, looked)
    yield from runs(home, looked)
    yield from work(home, looked)


def total(home: Home) -> int:
    """The bytes of all products, for a bar."""
    return sum(volume(home.store, key) for key in home.store.all_keys())


def repair(home: Home, finding: Finding) -> str:
    """Put it right, unless somebody uses it; what was done, in words."""
    if finding.mend is None:
        return "left alone: nothing can make it again, and no run needs it"
    lock = _lock(home, finding)
    if lock is None:
        return IN_USE
    try:
        finding.mend()
    finally:
        lock.discard()
    return finding.mended


IN_USE = "in use by a run: left alone"


def _lock(home: Home, finding: Finding) -> Lock | None:
    return try_lock(home.alive(home.runs / finding.name) if finding.of == "run" else home.lock(finding.name))

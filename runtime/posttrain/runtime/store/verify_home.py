"""The whole verification of a home, and its repair."""

from collections.abc import Iterator

from posttrain.runtime.store.file_locks import Lock, try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress
from posttrain.runtime.store.verify_products import product_bytes, verify_products
from posttrain.runtime.store.verify_runs import verify_runs
from posttrain.runtime.store.verify_workdirs import verify_workdirs


def verify_home(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    """All that is not as it was made. `progress` counts what was checked."""
    yield from verify_products(home, progress)
    yield from verify_runs(home, progress)
    yield from verify_workdirs(home, progress)


def total_bytes(home: Home) -> int:
    """The bytes of all products, for a bar."""
    return sum(product_bytes(home.store, key) for key in home.store.all_keys())


def repair(home: Home, finding: Finding) -> str:
    """Put it right, unless somebody uses it; what was done, in words."""
    if finding.repair is None:
        return "left alone: nothing can make it again, and no run needs it"
    lock = _try_lock_for(home, finding)
    if lock is None:
        return IN_USE
    try:
        finding.repair()
    finally:
        lock.discard()
    return finding.repair_note


IN_USE = "in use by a run: left alone"


def _try_lock_for(home: Home, finding: Finding) -> Lock | None:
    return try_lock(
        home.run_lock(home.runs / finding.name) if finding.kind == "run" else home.step_lock(finding.name)
    )

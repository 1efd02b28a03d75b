"""Verifies a whole home, and repairs findings."""

from collections.abc import Iterator

from posttrain.runtime.store.file_locks import Lock, try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress
from posttrain.runtime.store.verify_products import product_bytes, verify_products
from posttrain.runtime.store.verify_runs import verify_runs
from posttrain.runtime.store.verify_workdirs import verify_workdirs
from posttrain.spec.record import record

IN_USE = "not repaired: in use by a run"
NOT_REPAIRABLE = "not repaired: it cannot be rebuilt, and no run needs it"


@record
class CheckedFinding:
    """A finding, and what a repair did, as text; empty when no repair was requested."""

    finding: Finding
    repair: str = ""

    @property
    def is_repaired(self) -> bool:
        return self.repair not in ("", IN_USE, NOT_REPAIRABLE)


def check_home(home: Home, progress: VerifyProgress, *, repair_damage: bool) -> list[CheckedFinding]:
    """Verify a whole home first, and then repair its findings on request."""
    found = list(verify_home(home, progress))
    return [CheckedFinding(one, repair(home, one) if repair_damage else "") for one in found]


def verify_home(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    """All findings of a home. `progress` counts the checked items."""
    yield from verify_products(home, progress)
    yield from verify_runs(home, progress)
    yield from verify_workdirs(home, progress)


def total_bytes(home: Home) -> int:
    """The bytes of all products, for a progress bar."""
    found = map(home.store.find_outline, home.store.all_keys())
    return sum(product_bytes(outline) for outline in found if outline is not None)


def repair(home: Home, finding: Finding) -> str:
    """Repair a finding unless the item is in use; returns what was done, as text."""
    if finding.repair is None:
        return NOT_REPAIRABLE
    lock = _try_lock_for(home, finding)
    if lock is None:
        return IN_USE
    try:
        finding.repair()
    finally:
        lock.discard()
    return finding.repair_note


def _try_lock_for(home: Home, finding: Finding) -> Lock | None:
    return try_lock(
        home.run_lock(home.runs / finding.name) if finding.kind == "run" else home.step_lock(finding.name)
    )

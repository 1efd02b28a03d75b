"""Finds the unreferenced data of a home: `recipe gc` lists it, and deletes it on request.

Products that a run references, products that these depend on, and locked data are never garbage. A run
that starts during the collection and misses a product rebuilds it.
"""

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.store.file_locks import is_held, try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal
from posttrain.runtime.store.product_outline import base_keys
from posttrain.runtime.store.runs import load_plan, run_key
from posttrain.runtime.store.workdir import has_open_attempt

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan


# The prefix of folders in work/ that are being deleted.
_DELETING_PREFIX = "going-"


@dataclass(frozen=True, kw_only=True)
class GarbageItem:
    """Something that can be deleted: a run, a product, a working directory, a damaged product, or rows."""

    kind: str
    path: Path
    reason: str
    # The lock to hold during the deletion.
    lock: Path


class UnreadableRun(Exception):
    """An unreadable run: its references are not known, so no product is safe to delete."""


def find_garbage(
    home: Home,
    *,
    keep_runs: int | None = None,
    older_than: float | None = None,
    has_job: Callable[[Path], bool] = has_open_attempt,
) -> list[GarbageItem]:
    """The items that can be deleted. Items modified after the time `older_than` stay, and working directories
    that a job of a cluster uses: a job outlives its client, and holds no lock."""
    expired = expired_runs(home, keep_runs, older_than)
    referenced = _referenced_keys(home, [run for run in _run_folders(home) if run not in expired])
    found = [GarbageItem(kind="run", path=run, reason="old run", lock=home.run_lock(run)) for run in expired]
    others = (
        *_unreferenced_products(home, referenced),
        *(item for item in _unreferenced_workdirs(home, referenced) if not has_job(item.path)),
        *_quarantined_products(home),
        *_cached_rows(home, has_job),
    )
    return found + [item for item in others if _is_older(item.path, older_than) and not is_held(item.lock)]


def used_workdirs(home: Home, has_job: Callable[[Path], bool] = has_open_attempt) -> list[Path]:
    """The working directories that a job of a cluster uses."""
    work = home.workdir("any").parent
    return (
        [path for path in sorted(work.iterdir()) if path.is_dir() and has_job(path)] if work.is_dir() else []
    )


def expired_runs(home: Home, keep: int | None, older_than: float | None) -> list[Path]:
    """The runs except the `keep` newest ones and the active ones."""
    if keep is None:
        return []
    folders = _run_folders(home)
    older = folders[: max(0, len(folders) - keep)]
    return [run for run in older if _is_older(run, older_than) and not is_held(home.run_lock(run))]


def freed_bytes(items: Sequence[GarbageItem]) -> int:
    """The bytes that a deletion frees. A file with a link elsewhere frees none."""
    links: Counter[tuple[int, int]] = Counter()
    files: dict[tuple[int, int], os.stat_result] = {}
    for item in items:
        for found in _iter_stats(item.path):
            links[found.st_dev, found.st_ino] += 1
            files[found.st_dev, found.st_ino] = found
    return sum(found.st_size for at, found in files.items() if links[at] >= found.st_nlink)


def remove_garbage(home: Home, item: GarbageItem) -> bool:
    """Delete an item unless it is in use; true when it was deleted."""
    lock = try_lock(item.lock)
    if lock is None:
        return False
    try:
        if item.path.is_dir():
            # Rename first, so that the item disappears atomically.
            target = home.workdir(f"{_DELETING_PREFIX}{item.path.name}")
            shutil.rmtree(target, ignore_errors=True)
            shutil.rmtree(item.path.rename(target))
    finally:
        lock.discard()
    return True


def remove_all_garbage(home: Home, items: Sequence[GarbageItem]) -> int:
    """Delete the items; returns how many are in use and stay."""
    return sum(not remove_garbage(home, item) for item in items)


def _run_folders(home: Home) -> list[Path]:
    if not home.runs.is_dir():
        return []
    return sorted(path for path in home.runs.iterdir() if path.is_dir())


def _referenced_keys(home: Home, runs: Sequence[Path]) -> set[str]:
    """The keys that runs reference, plus those of the products that these depend on."""
    pending = [key for run in runs for key in run_keys(run)]
    referenced: set[str] = set()
    while pending:
        key = pending.pop()
        if key not in referenced:
            referenced.add(key)
            pending += base_keys(home.store.root / key)
    return referenced


def run_keys(run: Path) -> list[str]:
    """The keys that a run references, from its plan, or from its journal without a readable plan."""
    plan = load_plan(run)
    if plan is not None:
        return _keys_from_plan(plan, run.name)
    journal = run / "journal.sqlite"
    if not journal.exists() and not (run / "plan.json").exists():
        return []  # the client died before it wrote anything
    keys = _keys_from_journal(journal) if journal.exists() else []
    if not keys:
        raise UnreadableRun(f"the run {run.name} is not readable, so its references are not known")
    return keys


def _keys_from_journal(path: Path) -> list[str]:
    try:
        journal = Journal(path, read=True)
        keys = [entry.key for entry in journal.entries()]
        journal.close()
    except (DamagedJournal, sqlite3.Error):
        return []
    return keys


def _keys_from_plan(plan: "Plan", run: str) -> list[str]:
    # A step that is not pinned has a key private to the run; its shared key has no product.
    return [key for step in plan.steps for key in {step.key, run_key(step, run)}]


def _unreferenced_products(home: Home, referenced: set[str]) -> Iterator[GarbageItem]:
    for key in home.store.all_keys():
        if key not in referenced:
            product = home.store.find_manifest(key)
            of = f" of {product.manifest.step}" if product else ""
            yield GarbageItem(
                kind="product",
                path=home.store.root / key,
                reason=f"product{of} that no run refers to",
                lock=home.step_lock(key),
            )


def _unreferenced_workdirs(home: Home, referenced: set[str]) -> Iterator[GarbageItem]:
    """The working directories of steps that no run will resume."""
    work = home.workdir("any").parent
    for path in sorted(work.iterdir()) if work.is_dir() else ():
        if path.is_dir() and path.name not in referenced:
            why = "working directory that no run will resume"
            yield GarbageItem(kind="work", path=path, reason=why, lock=home.step_lock(path.name))


def _quarantined_products(home: Home) -> Iterator[GarbageItem]:
    for path in home.store.quarantined():
        key = path.name.partition("-")[0]
        yield GarbageItem(
            kind="damaged", path=path, reason="quarantined as damaged", lock=home.step_lock(key)
        )


def _cached_rows(home: Home, has_job: Callable[[Path], bool]) -> Iterator[GarbageItem]:
    """Training rows that a stage can write again. An active run can have them mapped into memory."""
    if not home.row_cache.is_dir() or used_workdirs(home, has_job):
        return
    if any(is_held(home.run_lock(run)) for run in _run_folders(home)):
        return
    for path in sorted(home.row_cache.iterdir()):
        if path.is_dir():
            why = "training rows that the next training writes again"
            yield GarbageItem(kind="cache", path=path, reason=why, lock=path.with_name(f"{path.name}.lock"))


def _is_older(path: Path, older_than: float | None) -> bool:
    return older_than is None or path.stat().st_mtime < older_than


def _iter_stats(root: Path) -> Iterator[os.stat_result]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield os.lstat(Path(folder) / name)

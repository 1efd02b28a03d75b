"""Verifies runs: the plan is the executed one, and the journal is intact and matches it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from sqlite3 import DatabaseError

from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal
from posttrain.runtime.store.runs import plan_digest, read_plan, run_key
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress, finding_text
from posttrain.spec.document_json import DocumentError, printable_name
from posttrain.spec.document_reader import document_from_dict
from posttrain.spec.journal_records import JournalStep
from posttrain.spec.plan import Plan

_JOURNAL = "journal.sqlite"
_RUN_FILES = ("plan.json", _JOURNAL, "report.html")


def verify_runs(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    for run in sorted(home.runs.iterdir()) if home.runs.is_dir() else ():
        # A client that died before it wrote its plan left an empty folder, with nothing to verify.
        if not run.is_dir() or not any((run / name).exists() for name in _RUN_FILES):
            continue
        progress.count("runs")
        if is_held(home.run_lock(run)):
            progress.count("active runs, not checked")
            continue
        yield from _verify_run(home, run, progress)


def _verify_run(home: Home, run: Path, progress: VerifyProgress) -> Iterator[Finding]:
    plan: Plan | None = None
    try:
        plan = read_plan(run)
    except DocumentError as error:
        exists = (run / "plan.json").exists()
        text = f"its plan is not readable: {finding_text(error)}" if exists else "its plan is missing"
        yield Finding(kind="run", name=run.name, step="plan", problem=text)
    try:
        journal = Journal(run / _JOURNAL, read=True)
    except (DamagedJournal, DatabaseError, OSError) as error:
        yield _journal_finding(home, run, plan, str(error))
        return
    try:
        what = journal.integrity_problem() or _find_mismatch(run, plan, journal, progress)
    except (DamagedJournal, DatabaseError) as error:
        what = str(error)
    finally:
        journal.close()
    if what is not None:
        yield _journal_finding(home, run, plan, what)
    elif plan is not None:
        missing = _count_missing_products(home, run, plan)
        if missing:
            progress.count("products of runs are missing from the store: the next run rebuilds them", missing)


def _journal_finding(home: Home, run: Path, plan: Plan | None, what: str) -> Finding:
    rebuild = None if plan is None else partial(_rebuild_journal, home, run, plan)
    return Finding(
        kind="run",
        name=run.name,
        step="journal",
        problem=what,
        repair=rebuild,
        repair_note="rebuilt from the plan and the store; the old journal is kept as journal.sqlite.damaged",
    )


def _find_mismatch(run: Path, plan: Plan | None, journal: Journal, progress: VerifyProgress) -> str | None:
    entries = journal.entries()
    progress.count("journal rows", len(entries))
    for entry in entries:
        try:
            document_from_dict(JournalStep, vars(entry))
        except DocumentError as error:
            return f"the row of {printable_name(entry.id)} is damaged: {error}"
    known = journal.get("plan")
    if plan is None:
        return None
    if known is not None and known != plan_digest(run):
        return "the plan is not the one that the journal was started with"
    expected = [(step.id, run_key(step, run.name)) for step in plan.steps]
    # The client can have died between the plan and the first row, but not after it wrote a report.
    if (entries or (run / "report.html").exists()) and [
        (entry.id, entry.key) for entry in entries
    ] != expected:
        return "its steps do not match the plan"
    return None


def _count_missing_products(home: Home, run: Path, plan: Plan) -> int:
    """The number of finished products of the plan that are missing from the store."""
    journal = Journal(run / _JOURNAL, read=True)
    ended = {entry.key for entry in journal.entries() if entry.state in ("done", "cached")}
    journal.close()
    return sum(not (home.store.root / key).exists() for key in ended)


def _rebuild_journal(home: Home, run: Path, plan: Plan) -> None:
    """Rebuild the journal from the plan (the steps) and the store (the finished ones)."""
    old = run / _JOURNAL
    if old.exists():
        old.replace(run / f"{_JOURNAL}.damaged")
    for name in (f"{_JOURNAL}-wal", f"{_JOURNAL}-shm"):
        (run / name).unlink(missing_ok=True)
    keys = {step.id: run_key(step, run.name) for step in plan.steps}
    journal = Journal(old)
    journal.add_steps([(step.id, keys[step.id], step.estimate or {}) for step in plan.steps])
    journal.set("plan", plan_digest(run))
    for id, key in keys.items():
        product = home.store.find(key)
        if product is not None:
            known = {"facts": dict(product.facts), "cost": dict(product.cost)}
            journal.update_step(
                id, "cached", reason="rebuilt from the store, because the journal was damaged", **known
            )
    journal.close()

"""Reads the log of a step, also while the step runs."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from sqlite3 import DatabaseError

from posttrain.runtime.inspection.log_filter import EventLines, LogFilter
from posttrain.runtime.inspection.run_lookup import check_step
from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal, JournalEntry
from posttrain.runtime.store.runs import find_step_key, find_step_record
from posttrain.spec.record import record

_POLL_SECONDS = 0.2
_FINISHED_STATES = ("cached", "done")
_UNFINISHED_STATES = ("waiting", "queued", "running")


@record(kw_only=True)
class StepLog:
    """The files that a step writes."""

    log: Path
    events: Path
    # Whether the step has ended, so that the log does not grow.
    has_ended: Callable[[], bool]
    has_failed: bool = False


@record(kw_only=True)
class NoLog:
    """Why a step has no log, and what to do if it failed."""

    reason: str
    advice: str = ""


def find_log(home: Home, run: Path, id: str) -> StepLog | NoLog:
    """The log of a step, or why it has none. A step that has not started in this run can still have the log
    of an earlier run in its working directory: that is not the log of this run."""
    check_step(run, id)
    entry = _journal_entry(run, id)
    folder = find_step_record(home, run, id) or _damaged_record(home, run, id)
    if folder is not None and (folder / "log").exists():
        in_store = folder.is_relative_to(home.store.root)
        if in_store or entry is None or entry.attempt:
            over = (lambda: True) if in_store else partial(_has_ended, home, run, id)
            failed = entry is not None and entry.state == "failed"
            events = folder / "events.jsonl"
            return StepLog(log=folder / "log", events=events, has_ended=over, has_failed=failed)
    if entry is None or entry.state in _UNFINISHED_STATES:
        return NoLog(reason=f"`{id}` has not run yet")
    if entry.state in _FINISHED_STATES or entry.attempt:
        return NoLog(reason=f"the log of `{id}` is missing", advice="`recipe verify` lists what is damaged")
    return NoLog(reason=f"`{id}` has not started ({entry.state}): {entry.reason}", advice=entry.advice)


def _damaged_record(home: Home, run: Path, id: str) -> Path | None:
    """The folder with the log of a product that is damaged: the log can be intact."""
    key = find_step_key(run, id)
    record = home.store.root / key / "record" if key else None
    return record if record is not None and (record / "log").is_file() else None


def _has_ended(home: Home, run: Path, id: str) -> bool:
    """Whether no process works on a step any more, also after its client was killed."""
    entry = _journal_entry(run, id)
    if entry is not None and entry.state not in _UNFINISHED_STATES:
        return True
    key = find_step_key(run, id)
    return not is_held(home.run_lock(run)) and not (key and is_held(home.step_lock(key)))


def _journal_entry(run: Path, id: str) -> JournalEntry | None:
    """What the journal records about a step; None when it is not readable."""
    try:
        journal = Journal(run / "journal.sqlite", read=True)
        try:
            return next((entry for entry in journal.entries() if entry.id == id), None)
        finally:
            journal.close()
    except (DamagedJournal, DatabaseError):
        return None


def read_log(found: StepLog, *, follow: bool, raw: bool = False) -> Iterator[str]:
    """The text of a log in pieces. `follow` waits for more until the step ends.

    Progress bars are removed and the events of the step added, unless `raw`. What a failed step printed comes
    after its events: it ends with the cause.
    """
    with found.log.open(encoding="utf-8", errors="replace", newline="") as file:
        if raw:
            yield from _pieces(found, follow, file.read)
            return
        text, events = LogFilter(), EventLines(found.events)

        def read() -> str:
            log, added = text.feed(file.read()), events.new()
            return added + log if found.has_failed else log + added

        yield from _pieces(found, follow, read)
        if rest := text.end():
            yield rest


def _pieces(found: StepLog, follow: bool, read: Callable[[], str]) -> Iterator[str]:
    has_ended = not follow
    while True:
        if text := read():
            yield text
        # The text that a step wrote between the last read and its end is read once more.
        elif has_ended:
            return
        elif found.has_ended() or not found.log.exists():
            has_ended = True
        else:
            time.sleep(_POLL_SECONDS)

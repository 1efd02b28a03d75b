"""Reads the log of a step, also while the step runs."""

import time
from collections.abc import Iterator
from pathlib import Path

from posttrain.runtime.inspection.run_lookup import check_step
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import find_step_record
from posttrain.spec.record import record

_POLL_SECONDS = 0.2


@record(kw_only=True)
class StepLog:
    """The files that a step writes."""

    log: Path
    events: Path
    # Whether the step has finished, so that the log does not grow.
    is_complete: bool

    @property
    def is_empty(self) -> bool:
        return self.log.stat().st_size == 0


def find_log(home: Home, run: Path, id: str) -> StepLog | None:
    """The log of a step; None when the step has not started."""
    check_step(run, id)
    folder = find_step_record(home, run, id)
    if folder is None or not (folder / "log").exists():
        return None
    in_store = folder.is_relative_to(home.store.root)
    return StepLog(log=folder / "log", events=folder / "events.jsonl", is_complete=in_store)


def read_log(found: StepLog, *, follow: bool) -> Iterator[str]:
    """The text of a log in pieces. `follow` waits for more until the step ends."""
    with found.log.open(encoding="utf-8", errors="replace") as file:
        while True:
            text = file.read()
            if text:
                yield text
            # The record of a step that finishes moves to the store.
            elif not follow or found.is_complete or not found.log.exists():
                return
            else:
                time.sleep(_POLL_SECONDS)

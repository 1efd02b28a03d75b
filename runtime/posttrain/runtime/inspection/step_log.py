"""Reads the log of a step, also while the step runs."""

import time
from collections.abc import Iterator
from pathlib import Path

from posttrain.runtime.inspection.run_lookup import check_step
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import find_step_record
from posttrain.spec.record import record

_POLL_SECONDS = 0.2


@record
class StepLog:
    """The files that a step writes."""

    log: Path
    events: Path

    @property
    def is_empty(self) -> bool:
        return self.log.stat().st_size == 0


def find_log(home: Home, run: Path, id: str) -> StepLog | None:
    """The log of a step; None when the step has not started."""
    check_step(run, id)
    folder = find_step_record(home, run, id)
    if folder is None or not (folder / "log").exists():
        return None
    return StepLog(folder / "log", folder / "events.jsonl")


def read_log(log: Path, *, follow: bool) -> Iterator[str]:
    """The text of a log in pieces. `follow` waits for more until the step ends."""
    with log.open(encoding="utf-8", errors="replace") as file:
        while True:
            text = file.read()
            if text:
                yield text
            elif not follow or not log.exists():  # the record of a finished step moves to the store
                return
            else:
                time.sleep(_POLL_SECONDS)

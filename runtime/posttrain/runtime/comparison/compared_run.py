"""A run of a comparison, with everything that the comparison shows of it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime.report.run_reader import read_run, run_secrets
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.run_labels import RunLabels, read_labels


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One of the runs. The first one is the baseline of the others."""

    # `A`, `B` and so on: the short name of the run on the page.
    mark: str
    folder: Path
    record: RunRecord
    labels: RunLabels
    # The values to redact in the texts of its rows.
    secrets: tuple[str, ...]

    def step(self, id: str) -> StepRecord | None:
        return next((record for record in self.record.steps if record.id == id), None)

    @property
    def title(self) -> str:
        """The name that the user gave to the run, or that of its folder."""
        return self.labels.name or self.record.name


def read_compared_runs(runs: Sequence[tuple[Home, Path]]) -> list[ComparedRun]:
    """Read the runs in their order. Damaged records become messages, as in the report of a run."""
    return [_read(run_mark(place), home, run) for place, (home, run) in enumerate(runs)]


def _read(mark: str, home: Home, run: Path) -> ComparedRun:
    record = read_run(home, run, completions=False)
    return ComparedRun(
        mark=mark,
        folder=run,
        record=record,
        labels=read_labels(run),
        secrets=run_secrets(record.plan, os.environ),
    )


def run_mark(place: int) -> str:
    """The letters of a run: A to Z, then AA, AB and so on."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def shared_stages(runs: Sequence[ComparedRun]) -> list[str]:
    """The stages of all runs: in the order of the first run, then those that only later runs have."""
    found: Mapping[str, None] = dict.fromkeys(record.id for run in runs for record in run.record.steps)
    return list(found)

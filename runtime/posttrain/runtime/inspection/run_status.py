"""Reads the states and results of runs from their journals and products."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from sqlite3 import DatabaseError
from typing import Any

from posttrain.runtime.event_tail import last_metrics, last_progress
from posttrain.runtime.report.number_format import finite_or_none
from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal, JournalEntry
from posttrain.runtime.store.run_labels import RunLabels, read_labels
from posttrain.runtime.store.runs import list_runs, recipe_of_run
from posttrain.spec.record import record

INTERRUPTED = "interrupted"
# The states of steps that a client works on.
UNFINISHED = ("running", "queued")
_STATES_WITH_RESULTS = ("done", "cached", "running", INTERRUPTED)
_ENDS = ("value", "low", "high")


class UnreadableStatus(Exception):
    """A run whose journal is missing or damaged."""


@record(kw_only=True)
class StepStatus:
    """The record of a step, and its result."""

    entry: JournalEntry
    # The facts of its product. Steps without a result have none.
    facts: Mapping[str, Any]
    # The last metrics of a training.
    metrics: Mapping[str, float]
    # Of a running step, as `event_tail.progress_facts` returns it.
    progress: Mapping[str, Any] | None = None


@record(kw_only=True)
class RunStatus:
    """The record of a run."""

    name: str
    # The path of the recipe.
    recipe: str | None
    # When the run began and ended, in seconds since the epoch.
    began: float | None
    ended: float | None
    # None when the run has not ended, or was killed.
    result: str | None
    # Whether a client runs it now.
    is_running: bool
    steps: tuple[StepStatus, ...]


@record(kw_only=True)
class RunSummary:
    """A run as a line of a list."""

    name: str
    recipe: str | None = None
    began: float | None = None
    ended: float | None = None
    result: str | None = None
    # The result, or `running`, `interrupted`, `journal damaged`, `no journal`.
    state: str
    # The number of steps in each state.
    steps: Mapping[str, int]
    # What the user calls the run.
    labels: RunLabels = RunLabels()
    # The metrics of its evals as STAGE.METRIC, in the order of the plan: value, low, high.
    metrics: Mapping[str, Mapping[str, float | None]] = field(
        default_factory=dict[str, Mapping[str, float | None]]
    )

    @property
    def recipe_name(self) -> str:
        """The name of the recipe, from that of the run."""
        return recipe_of_run(self.name)

    @property
    def seconds(self) -> float | None:
        """The duration; None when it is not known, or when the clock went back during the run."""
        if self.began is None or self.ended is None or self.ended < self.began:
            return None
        return self.ended - self.began


def read_run_status(home: Home, run: Path) -> RunStatus:
    """The states and results of all steps. Raises `UnreadableStatus` for a damaged journal."""
    try:
        about, entries = _read_journal(run)
    except (DamagedJournal, DatabaseError) as error:
        raise UnreadableStatus(str(error)) from None
    is_running = about["result"] is None and is_held(home.run_lock(run))
    steps = tuple(_step_status(home, entry) for entry in _known_states(entries, about["result"], is_running))
    return RunStatus(name=run.name, **about, is_running=is_running, steps=steps)


def list_run_summaries(home: Home) -> Iterator[RunSummary]:
    """All runs, the newest last."""
    for run in list_runs(home):
        yield _run_summary(home, run)


def _run_summary(home: Home, run: Path) -> RunSummary:
    labels = read_labels(run)
    try:
        about, entries = _read_journal(run)
    except (DamagedJournal, DatabaseError):
        state = "journal damaged" if (run / "journal.sqlite").exists() else "no journal"
        return RunSummary(name=run.name, state=state, steps={}, labels=labels)
    is_running = about["result"] is None and is_held(home.run_lock(run))
    state = about["result"] or ("running" if is_running else INTERRUPTED)
    return RunSummary(
        name=run.name,
        **about,
        state=state,
        steps=Counter(entry.state for entry in _known_states(entries, about["result"], is_running)),
        labels=labels,
        metrics={name: metric for entry in entries for name, metric in _entry_metrics(entry)},
    )


def _entry_metrics(entry: JournalEntry) -> Iterator[tuple[str, Mapping[str, float | None]]]:
    """The metrics that the journal records: a list of runs reads no product."""
    found = entry.facts.get("metrics") if entry.state in _STATES_WITH_RESULTS else None
    for name, metric in found.items() if isinstance(found, dict) else ():
        if isinstance(metric, dict) and finite_or_none(metric.get("value")) is not None:
            yield f"{entry.id}.{name}", {end: finite_or_none(metric.get(end)) for end in _ENDS}


def _read_journal(run: Path) -> tuple[dict[str, Any], list[JournalEntry]]:
    """What the journal records about the run, and about each step."""
    journal = Journal(run / "journal.sqlite", read=True)
    about: dict[str, Any] = {name: finite_or_none(journal.get(name)) for name in ("began", "ended")}
    for name in ("recipe", "result"):
        about[name] = found if isinstance(found := journal.get(name), str) else None
    entries = journal.entries()
    journal.close()
    return about, entries


def interrupted_counts(steps: Mapping[str, int]) -> Mapping[str, int]:
    """The number of steps in each state, after their client was killed."""
    found: Counter[str] = Counter()
    for state, count in steps.items():
        found[INTERRUPTED if state in UNFINISHED else state] += count
    return found


def _known_states(
    entries: Sequence[JournalEntry], result: str | None, is_running: bool
) -> Sequence[JournalEntry]:
    """The steps of a client that was killed are interrupted, whatever its journal says."""
    if result is not None or is_running:
        return entries
    return [replace(one, state=INTERRUPTED) if one.state in UNFINISHED else one for one in entries]


def _step_status(home: Home, entry: JournalEntry) -> StepStatus:
    """The facts of a product come from its manifest, which a checksum protects, not from the journal."""
    if entry.state not in _STATES_WITH_RESULTS:
        return StepStatus(entry=entry, facts={}, metrics={})
    product = home.store.find_outline(entry.key)
    facts = product.facts if product else entry.facts
    folder = product.record if product else home.workdir(entry.key) / "record"
    events = folder / "events.jsonl"
    progress = last_progress(events) if entry.state in ("running", INTERRUPTED) and not product else None
    if progress is not None and entry.state == INTERRUPTED:
        progress |= {"per_second": None, "seconds_left": None}
    return StepStatus(entry=entry, facts=facts, metrics=last_metrics(events), progress=progress)

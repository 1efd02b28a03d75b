"""Reads a run from its folder and from the store. Unreadable records become messages in the report."""

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from posttrain.runtime.engines.usage_log import USAGE_FILE, read_usage
from posttrain.runtime.process_environment import resolve_secrets
from posttrain.runtime.report import redaction
from posttrain.runtime.report.eval_products import add_completions
from posttrain.runtime.report.events_reader import log_tail, read_breakdowns, read_step_events
from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepEvents, StepRecord
from posttrain.runtime.secret_masking import proxy_passwords, secret_values
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal, JournalEntry
from posttrain.runtime.store.runs import load_plan, run_key
from posttrain.spec.plan import Plan, SourceLocation, Step

_FINISHED = ("done", "cached")
# The events of a skipped step are from another run; those of a step that waits are from an earlier one.
_WITHOUT_EVENTS = ("skipped", "waiting")


class EventReader(Protocol):
    """Reads the events of a step, as `read_step_events` does."""

    def __call__(self, path: Path, secrets: tuple[str, ...], *, episodes: bool) -> StepEvents: ...


@dataclass(frozen=True)
class _JournalData:
    """The contents of a journal."""

    run_info: Mapping[str, Any]
    entries: Mapping[str, JournalEntry]
    error: str | None = None


def read_run(
    home: Home,
    run: Path,
    environment: Mapping[str, str] | None = None,
    *,
    read_events: EventReader = read_step_events,
    completions: bool = True,
) -> RunRecord:
    """Read everything that the report of a run shows, with or without the completions of evals."""
    environment = os.environ if environment is None else environment
    journal = _read_journal(run / "journal.sqlite")
    read_errors = [journal.error] if journal.error else []
    plan = load_plan(run)
    if plan is None:
        read_errors.append("The plan of this run is not readable. This page uses the journal alone.")
        plan = _plan_from_journal(run.name, journal.entries)
    source = _RecordSource(home, run, run_secrets(plan, environment), read_events, read_errors)
    steps = tuple(_step(source, step, journal.entries.get(step.id)) for step in plan.steps)
    result = journal.run_info.get("result")
    found = RunRecord(
        name=run.name,
        plan=plan,
        recipe=str(journal.run_info.get("recipe") or ""),
        began=finite_or_none(journal.run_info.get("began")),
        ended=finite_or_none(journal.run_info.get("ended")),
        result=str(result) if result else None,
        steps=steps,
        read_errors=tuple(read_errors),
    )
    return add_completions(found, source.secrets) if completions else found


def run_secrets(plan: Plan, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values that must not appear in what a page shows of a run."""
    names = {name for step in plan.steps for name in step.secrets}
    resolved = resolve_secrets(tuple(sorted(names)), environment).values()
    return secret_values((*resolved, *proxy_passwords(environment)))


@dataclass(frozen=True)
class _RecordSource:
    """Where the records of the steps are, and how to read them."""

    home: Home
    run: Path
    secrets: tuple[str, ...]
    read_events: EventReader
    read_errors: list[str]


def _read_journal(path: Path) -> _JournalData:
    if not path.exists():
        return _JournalData({}, {}, "This run has no journal. The results of its steps are not known.")
    try:
        journal = Journal(path, read=True)
        about = {name: journal.get(name) for name in ("recipe", "began", "ended", "result")}
        entries = {entry.id: entry for entry in journal.entries()}
        journal.close()
    except (DamagedJournal, sqlite3.Error, ValueError, TypeError) as error:
        return _JournalData(
            {}, {}, f"The journal of this run is not readable ({error}). The results of its steps are lost."
        )
    return _JournalData(about, entries)


def _plan_from_journal(name: str, entries: Mapping[str, JournalEntry]) -> Plan:
    """A plan with the steps of a journal, by id and key only."""
    nowhere = SourceLocation(file="", line=0, column=0)
    steps = [
        Step(id=e.id, kind="", entry="", params={}, place=nowhere, key=e.key, key_parts={}, key_values={})
        for e in entries.values()
    ]
    return Plan(name=name, description="", seed=0, steps=tuple(steps), target={}, tracking=())


def _step(source: _RecordSource, step: Step, entry: JournalEntry | None) -> StepRecord:
    home, secrets = source.home, source.secrets
    key = entry.key if entry else run_key(step, source.run.name)
    state = entry.state if entry else "unknown"
    product = home.store.find(key) if state in (*_FINISHED, "unknown") else None
    record = product.record if product else home.workdir(key) / "record"
    if product is None and state in _FINISHED:
        source.read_errors.append(f"The product and the record of {step.id} are missing from the store.")
    known = entry or product
    facts = mapping_or_empty(redaction.redact(known.facts if known else {}, secrets))
    breakdowns = read_breakdowns(product.files if product else None, facts)
    return StepRecord(
        step=step,
        key=key,
        state=state,
        reason=redaction.redact(entry.reason, secrets) if entry else "",
        advice=redaction.redact(entry.advice, secrets) if entry else "",
        attempt=entry.attempt if entry else 0,
        began=finite_or_none(entry.began) if entry else None,
        ended=finite_or_none(entry.ended) if entry else None,
        cost=mapping_or_empty(known.cost if known else {}),
        estimate=mapping_or_empty((entry.estimate if entry else None) or step.estimate),
        facts=facts,
        breakdowns=tuple(mapping_or_empty(redaction.redact(one, secrets)) for one in breakdowns),
        folder=product.files if product else None,
        files={name: item.model_dump() for name, item in product.manifest.files.items()} if product else {},
        events=StepEvents() if state in _WITHOUT_EVENTS else _events(source, step, record / "events.jsonl"),
        api_usage={} if state in _WITHOUT_EVENTS else read_usage(record / USAGE_FILE),
        log_tail=log_tail(record / "log", secrets) if state in ("failed", "interrupted") else (),
    )


def _events(source: _RecordSource, step: Step, path: Path) -> StepEvents:
    episodes = bool(mapping_or_empty(step.params).get("environment"))
    try:
        return source.read_events(path, source.secrets, episodes=episodes)
    except ValueError:
        source.read_errors.append(f"The events of {step.id} are damaged. Its curves and samples are missing.")
        return StepEvents()

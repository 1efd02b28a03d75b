"""Reads a run from its folder and from the store. Unreadable records become messages in the report."""

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.engines.usage_log import USAGE_FILE, read_usage
from posttrain.runtime.process_environment import resolve_secrets
from posttrain.runtime.report import redaction
from posttrain.runtime.report.events_reader import log_tail, read_breakdowns, read_step_events
from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepEvents, StepRecord
from posttrain.runtime.secret_masking import proxy_passwords, secret_values
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal, JournalEntry
from posttrain.runtime.store.runs import load_plan, run_key
from posttrain.spec.plan import Plan, SourceLocation, Step

_FINISHED = ("done", "cached")


@dataclass(frozen=True)
class _JournalData:
    """The contents of a journal."""

    run_info: Mapping[str, Any]
    entries: Mapping[str, JournalEntry]
    error: str | None = None


def read_run(home: Home, run: Path, environment: Mapping[str, str] = os.environ) -> RunRecord:
    """Read everything that the report of a run shows."""
    journal = _read_journal(run / "journal.sqlite")
    read_errors = [journal.error] if journal.error else []
    plan = load_plan(run)
    if plan is None:
        read_errors.append("The plan of this run is not readable. This page uses the journal alone.")
        plan = _plan_from_journal(run.name, journal.entries)
    names = {name for step in plan.steps for name in step.secrets}
    resolved = resolve_secrets(tuple(sorted(names)), environment).values()
    secrets = secret_values((*resolved, *proxy_passwords(environment)))
    steps = tuple(
        _step(home, run, step, journal.entries.get(step.id), secrets, read_errors) for step in plan.steps
    )
    result = journal.run_info.get("result")
    return RunRecord(
        name=run.name,
        plan=plan,
        recipe=str(journal.run_info.get("recipe") or ""),
        began=finite_or_none(journal.run_info.get("began")),
        ended=finite_or_none(journal.run_info.get("ended")),
        result=str(result) if result else None,
        steps=steps,
        read_errors=tuple(read_errors),
    )


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


def _step(
    home: Home,
    run: Path,
    step: Step,
    entry: JournalEntry | None,
    secrets: tuple[str, ...],
    read_errors: list[str],
) -> StepRecord:
    key = entry.key if entry else run_key(step, run.name)
    state = entry.state if entry else "unknown"
    product = home.store.find(key) if state in (*_FINISHED, "unknown") else None
    record = product.record if product else home.workdir(key) / "record"
    if product is None and state in _FINISHED:
        read_errors.append(f"The product and the record of {step.id} are missing from the store.")
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
        files={name: item.model_dump() for name, item in product.manifest.files.items()} if product else {},
        # The events of a skipped step are from another run.
        events=StepEvents()
        if state == "skipped"
        else _events(step, record / "events.jsonl", secrets, read_errors),
        api_usage={} if state == "skipped" else read_usage(record / USAGE_FILE),
        log_tail=log_tail(record / "log", secrets) if state in ("failed", "interrupted") else (),
    )


def _events(step: Step, path: Path, secrets: tuple[str, ...], read_errors: list[str]) -> StepEvents:
    episodes = bool(mapping_or_empty(step.params).get("environment"))
    try:
        return read_step_events(path, secrets, episodes=episodes)
    except ValueError:
        read_errors.append(f"The events of {step.id} are damaged. Its curves and samples are missing.")
        return StepEvents()

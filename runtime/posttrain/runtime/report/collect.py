"""Reads a run from its folder and from the store. What cannot be read is named, never guessed."""

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.journal import DamagedJournal, Entry, Journal
from posttrain.runtime.keeping.runs import plan_of, run_key
from posttrain.runtime.keeping.store import Product
from posttrain.runtime.report import redaction
from posttrain.runtime.report.figures import finite, table_of
from posttrain.runtime.report.record import Events, RunRecord, StepRecord
from posttrain.runtime.report.told import breakdowns_of, events_of, log_end
from posttrain.spec.plan import Place, Plan, Step

_MADE = ("done", "cached")


@dataclass(frozen=True)
class _Noted:
    """What the journal holds."""

    about: Mapping[str, Any]
    entries: Mapping[str, Entry]
    trouble: str | None = None


def collect(home: Home, run: Path, environment: Mapping[str, str] = os.environ) -> RunRecord:
    """Everything that the report of a run shows."""
    noted = _journal(run / "journal.sqlite")
    troubles = [noted.trouble] if noted.trouble else []
    plan = _plan(run)
    if plan is None:
        troubles.append("The plan of this run cannot be read; what follows is from its journal alone.")
        plan = _plan_from(run.name, noted.entries)
    named = {name for step in plan.steps for name in step.secrets}
    values = redaction.values_of(named, environment)
    steps = tuple(_step(home, run, step, noted.entries.get(step.id), values, troubles) for step in plan.steps)
    result = noted.about.get("result")
    return RunRecord(
        name=run.name,
        plan=plan,
        recipe=str(noted.about.get("recipe") or ""),
        began=finite(noted.about.get("began")),
        ended=finite(noted.about.get("ended")),
        result=str(result) if result else None,
        steps=steps,
        troubles=tuple(troubles),
    )


def _journal(path: Path) -> _Noted:
    if not path.exists():
        return _Noted({}, {}, "This run has no journal: how its steps ended is not known.")
    try:
        journal = Journal(path, read=True)
        about = {name: journal.get(name) for name in ("recipe", "began", "ended", "result")}
        entries = {entry.id: entry for entry in journal.entries()}
        journal.close()
    except (DamagedJournal, sqlite3.Error, ValueError, TypeError) as error:
        return _Noted(
            {}, {}, f"The journal of this run cannot be read ({error}): how its steps ended is lost."
        )
    return _Noted(about, entries)


def _plan(run: Path) -> Plan | None:
    try:
        return plan_of(run)
    except AttributeError:  # JSON, but nothing like a plan
        return None


def _plan_from(name: str, entries: Mapping[str, Entry]) -> Plan:
    """A plan that names the steps of a journal, and knows nothing else of them."""
    nowhere = Place(file="", line=0, column=0)
    steps = [
        Step(id=e.id, kind="", entry="", params={}, place=nowhere, key=e.key, key_parts={}, key_values={})
        for e in entries.values()
    ]
    return Plan(name=name, description="", seed=0, steps=tuple(steps), target={}, tracking=())


def _step(
    home: Home, run: Path, step: Step, entry: Entry | None, hide: tuple[str, ...], troubles: list[str]
) -> StepRecord:
    key = entry.key if entry else run_key(step, run.name)
    state = entry.state if entry else "unknown"
    product = _product(home, key) if state in (*_MADE, "unknown") else None
    record = product.record if product else home.work(key) / "record"
    if product is None and state in _MADE:
        troubles.append(f"The product of {step.id} is no longer in the store, and its record with it.")
    manifest = product.manifest if product else {}
    facts = table_of(redaction.hidden(entry.facts if entry else manifest.get("facts"), hide))
    broken = breakdowns_of(product.files if product else None, facts)
    return StepRecord(
        step=step,
        key=key,
        state=state,
        reason=redaction.hidden(entry.reason, hide) if entry else "",
        advice=redaction.hidden(entry.advice, hide) if entry else "",
        attempt=entry.attempt if entry else 0,
        began=finite(entry.began) if entry else None,
        ended=finite(entry.ended) if entry else None,
        cost=table_of(entry.cost if entry else manifest.get("cost")),
        estimate=table_of((entry.estimate if entry else None) or step.estimate),
        facts=facts,
        breakdowns=tuple(table_of(redaction.hidden(one, hide)) for one in broken),
        files=table_of(manifest.get("files")),
        # What a step that is left out here has once said is not of this run.
        events=Events() if state == "skipped" else _events(step, record / "events.jsonl", hide, troubles),
        log=log_end(record / "log", hide) if state in ("failed", "interrupted") else (),
    )


def _product(home: Home, key: str) -> Product | None:
    try:
        return home.store.find(key)
    except (KeyError, TypeError, AttributeError):  # a manifest that is none
        return None


def _events(step: Step, path: Path, hide: tuple[str, ...], troubles: list[str]) -> Events:
    episodes = bool(table_of(step.params).get("environment"))
    try:
        return events_of(path, hide, episodes=episodes)
    except ValueError:
        troubles.append(f"The events of {step.id} are damaged: its curves and samples are missing here.")
        return Events()

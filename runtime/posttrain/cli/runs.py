"""`recipe runs`: list all runs of a home, oldest first."""

import json
from collections import Counter
from pathlib import Path
from sqlite3 import DatabaseError
from typing import Any

import click

from posttrain.cli.home_option import home_option, resolve_home
from posttrain.runtime.store.home import Home


@click.command("runs")
@home_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(home: str | None, as_json: bool) -> None:
    """Show all runs: start, result, steps, duration."""
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.report.number_format import format_duration, format_timestamp
    from posttrain.runtime.store.runs import list_runs

    where = resolve_home(home)
    found = [_run_info(where, run) for run in list_runs(where)]
    if as_json:
        click.echo(json.dumps(found, indent=1, sort_keys=True))
        return
    rows = [
        (
            run["run"],
            format_timestamp(run["began"]),
            run["state"],
            _state_counts(run["steps"]),
            format_duration(run["seconds"]),
        )
        for run in found
    ]
    if not rows:
        click.echo(f"no runs in {where.root}")
        return
    print_table(("run", "began", "state", "steps", "took"), rows, state=2)


def _run_info(home: Home, run: Path) -> dict[str, Any]:
    """What the journal records about a run."""
    from posttrain.runtime.store.file_locks import is_held
    from posttrain.runtime.store.journal import DamagedJournal, Journal

    try:
        journal = Journal(run / "journal.sqlite", read=True)
        about = {name: journal.get(name) for name in ("recipe", "began", "ended", "result")}
        states = Counter(entry.state for entry in journal.entries())
        journal.close()
    except (DamagedJournal, DatabaseError):
        known = dict.fromkeys(("recipe", "began", "ended", "result", "seconds"))
        state = "journal damaged" if (run / "journal.sqlite").exists() else "no journal"
        return {"run": run.name, **known, "state": state, "steps": {}}
    began, ended = about["began"], about["ended"]
    state = about["result"] or ("running" if is_held(home.run_lock(run)) else "interrupted")
    seconds = ended - began if began is not None and ended is not None and ended >= began else None
    return {"run": run.name, **about, "state": state, "seconds": seconds, "steps": dict(states)}


def _state_counts(steps: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in steps.items())

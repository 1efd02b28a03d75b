"""`recipe status`: the states and results of the steps of a run."""

import json
from sqlite3 import DatabaseError
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home

if TYPE_CHECKING:
    from posttrain.runtime.store.home import Home
    from posttrain.runtime.store.journal import JournalEntry

_MAX_METRICS = 3  # per line of a step


@click.command("status")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="The output format."
)
def command(home: str | None, name: str | None, form: str) -> None:
    """Show the steps of a run: state, time, memory, results."""
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.store.journal import DamagedJournal, Journal

    place = resolve_home(home)
    folder = find_run(place, name)
    try:
        journal = Journal(folder / "journal.sqlite", read=True)
        entries = journal.entries()
    except (DamagedJournal, DatabaseError) as damage:
        advice = "finished steps are in the store: `recipe run` continues from there"
        raise click.ClickException(f"{damage}; {advice}") from None
    if form == "json":
        steps = [{**vars(entry), "outcome": _step_result(place, entry)[0]} for entry in entries]
        about = {name: journal.get(name) for name in ("recipe", "began", "ended", "result")}
        click.echo(json.dumps({"run": folder.name, **about, "steps": steps}, indent=1, sort_keys=True))
        return
    click.echo(f"run {folder.name}: {journal.get('result', 'running or interrupted')}")
    rows = [
        (e.id, e.state, *_time_and_memory(e), "  ".join(_step_result(place, e)[1]), e.reason) for e in entries
    ]
    # Empty columns are omitted.
    shown = [0, 1, *(column for column in range(2, 7) if any(row[column] for row in rows)), 7]
    header = ("step", "state", "took", "expected", "memory", "expected", "result", "why")
    print_table([header[c] for c in shown], [[row[c] for c in shown] for row in rows], state=1)


def _step_result(home: "Home", entry: "JournalEntry") -> tuple[dict[str, Any], list[str]]:
    """The result of a step, as data and as text: the facts of its product and the last training metrics."""
    from posttrain.cli.results import metric_lines, result_data, result_lines
    from posttrain.runtime.events import last_metrics

    if entry.state not in ("done", "cached", "running"):
        return {}, []
    product = home.store.find_manifest(entry.key)
    facts = product.facts if product else entry.facts
    record = product.record if product else home.workdir(entry.key) / "record"
    last = last_metrics(record / "events.jsonl")
    about = result_data(facts)
    return ({**about, "last_metrics": last} if last else about), [
        *metric_lines(last),
        *result_lines(facts, _MAX_METRICS),
    ]


def _time_and_memory(entry: "JournalEntry") -> tuple[str, str, str, str]:
    """Time and peak memory, each with the plan's estimate; GPU memory if the step used a GPU."""
    from posttrain.runtime.report.number_format import format_duration, format_short_duration

    seconds, expected = entry.cost.get("seconds"), entry.estimate
    peak = entry.cost.get("peak_gpu_mb", entry.cost.get("peak_memory_mb"))
    memory = expected.get("memory_gb")
    return (
        "" if seconds is None else format_duration(seconds),
        "" if expected.get("seconds") is None else format_short_duration(expected["seconds"]),
        "" if peak is None else f"{peak * 2**20 / 10**9:.1f} GB",
        "" if memory is None else f"{memory:.1f} GB",
    )

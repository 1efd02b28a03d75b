"""`recipe status`: where the newest run stands."""

import json
from sqlite3 import DatabaseError

import click

from posttrain.cli.homes import chosen_run, home_of, home_option


@click.command("status")
@home_option
@click.option("--run", "name", metavar="NAME", help="A run by the beginning of its name; else the newest.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people, or programs."
)
def command(home: str | None, name: str | None, form: str) -> None:
    """Show the steps of a run: state, time, what came out."""
    from posttrain.cli.tables import table
    from posttrain.runtime.journal import DamagedJournal, Journal
    from posttrain.runtime.report.figures import duration

    folder = chosen_run(home_of(home), name)
    try:
        journal = Journal(folder / "journal.sqlite")
        entries = journal.entries()
    except (DamagedJournal, DatabaseError) as damage:
        advice = "what was finished is kept in the store: `recipe run` goes on from there"
        raise click.ClickException(f"{damage}; {advice}") from None
    if form == "json":
        steps = [{**vars(entry), "cost": dict(entry.cost), "facts": dict(entry.facts)} for entry in entries]
        about = {name: journal.get(name) for name in ("recipe", "began", "ended", "result")}
        click.echo(json.dumps({"run": folder.name, **about, "steps": steps}, indent=1, sort_keys=True))
        return
    click.echo(f"run {folder.name}: {journal.get('result', 'under way, or cut short')}")
    rows = [(e.id, e.state, duration(e.cost.get("seconds")), e.reason) for e in entries]
    table(("step", "state", "took", "why"), rows, state=1)

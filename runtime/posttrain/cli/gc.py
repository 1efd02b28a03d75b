"""`recipe gc`: what no run needs any more, and how much room it takes."""

import re
import time

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import Misuse
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.rubbish import Rubbish

_UNITS = {"m": 60, "h": 3600, "d": 86400}


@click.command("gc")
@home_option
@click.option("--yes", is_flag=True, help="Delete it. Without this, only show it.")
@click.option(
    "--keep-runs", type=click.IntRange(0), metavar="N", help="Forget all runs but the newest N first."
)
@click.option("--older-than", "age", metavar="AGE", help="Only what is older, such as 30d, 12h or 90m.")
def command(home: str | None, yes: bool, keep_runs: int | None, age: str | None) -> None:
    """Show what no run names any more, and delete it with --yes."""
    from posttrain.cli.tables import table
    from posttrain.runtime.keeping.rubbish import Unreadable, rubbish, size
    from posttrain.runtime.report.figures import size as shown

    where = home_of(home)
    older_than = None if age is None else time.time() - seconds(age)
    try:
        found = rubbish(where, keep_runs=keep_runs, older_than=older_than)
    except Unreadable as error:
        raise click.ClickException(f"{error}; remove its folder in {where.runs}, or mend it") from None
    if not found:
        click.echo("nothing to delete")
        return
    rows = [(item.kind, item.path.name[:24], shown(size([item])), item.why) for item in found]
    table(("what", "name", "size", "why"), rows)
    total = shown(size(found))
    if not yes:
        click.echo(f"{total} would become free; --yes deletes")
        return
    kept = _delete(where, found)
    click.echo(f"{total} deleted" if not kept else f"deleted, except {kept} that came into use meanwhile")


def seconds(age: str) -> float:
    """A length of time as people write it."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", age.strip())
    if found is None:
        raise Misuse(f"--older-than takes a number and m, h or d, such as 30d; this is `{age}`")
    return float(found[1]) * _UNITS[found[2]]


def _delete(home: Home, found: list[Rubbish]) -> int:
    """Delete all of it; how many were in use after all."""
    from posttrain.runtime.keeping.rubbish import remove

    return sum(not remove(home, item) for item in found)

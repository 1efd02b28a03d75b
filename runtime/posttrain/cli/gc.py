"""`recipe gc`: list or delete products and work folders that no run refers to."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.place_option import find_place

if TYPE_CHECKING:
    from posttrain.spec.place import Place

_UNITS = {"m": 60, "h": 3600, "d": 86400}


@click.command("gc")
@home_option
@click.option("--yes", is_flag=True, help="Delete the items. Without this option, only list them.")
@click.option(
    "--keep-runs",
    type=click.IntRange(0),
    metavar="N",
    help="Also delete all runs except the newest N.",
)
@click.option(
    "--older-than", "age", metavar="AGE", help="Select only items older than AGE, such as 30d, 12h or 90m."
)
@click.option(
    "--on",
    "place_name",
    metavar="PLACE",
    help="Ask the engine of this place which jobs exist, and select the work folders of the others too.",
)
def command(
    home: str | None, yes: bool, keep_runs: int | None, age: str | None, place_name: str | None
) -> None:
    """List products and work folders that no run refers to. Delete them with --yes.

    A work folder in which a job of a cluster can still run is not listed.
    """
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.report.number_format import format_size as shown
    from posttrain.runtime.store.garbage import (
        UnreadableRun,
        find_garbage,
        freed_bytes,
        has_open_attempt,
        remove_all_garbage,
        used_workdirs,
    )

    place = None if place_name is None else find_place(place_name)
    where = resolve_home(home, place)
    has_job = has_open_attempt if place is None else _job_finder(place)
    older_than = None if age is None else time.time() - parse_age(age)
    try:
        found = find_garbage(where, keep_runs=keep_runs, older_than=older_than, has_job=has_job)
    except UnreadableRun as error:
        raise click.ClickException(f"{error}; repair its folder in {where.runs}, or remove it") from None
    if used := len(used_workdirs(where, has_job)):
        hint = "" if place else ": `recipe gc --on PLACE` asks its engine"
        folders = "1 work folder has" if used == 1 else f"{used} work folders have"
        click.echo(f"{folders} a job of a cluster{hint}", err=True)
    if not found:
        click.echo("nothing to delete")
        return
    rows = [(item.kind, item.path.name[:24], shown(freed_bytes([item])), item.reason) for item in found]
    print_table(("what", "name", "size", "why"), rows)
    total = shown(freed_bytes(found))
    if not yes:
        click.echo(f"{total} can be freed; delete the items with --yes")
        return
    busy = remove_all_garbage(where, found)
    click.echo(f"{total} deleted" if not busy else f"deleted, except {busy} now in use")


def _job_finder(place: "Place") -> Callable[[Path], bool]:
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.runners.cluster.place_jobs import job_finder

    try:
        return job_finder(place)
    except StepError as error:
        raise click.ClickException(f"{error}; {error.advice}") from None


def parse_age(age: str) -> float:
    """Parse a duration such as 30d."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", age.strip())
    if found is None:
        raise InvalidUsage(f"--older-than takes a number and m, h or d, such as 30d; got `{age}`")
    return float(found[1]) * _UNITS[found[2]]

"""`recipe doctor`: check a place with small jobs."""

import click

from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.cli.place_option import find_place

_MARKS = {"ok": ("+", "green"), "warning": ("!", "yellow"), "failed": ("x", "red")}


@click.command("doctor")
@click.option(
    "--on",
    "place_name",
    metavar="PLACE",
    required=True,
    help="The cluster to check: a name in the file of places.",
)
@home_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="The time that the jobs have to start and to report.",
)
def command(place_name: str, home: str | None, timeout: float) -> None:
    """Run small jobs on two nodes of a place. They check the shared folder, renames, locks, clocks, versions
    and GPUs."""
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.runners.cluster.place_check import check_place

    place = find_place(place_name)
    failed = False
    try:
        for found in check_place(place, resolve_home(home, place), timeout):
            mark, color = _MARKS[found.outcome]
            click.secho(f"{mark} {found.check}: {found.text}", fg=color)
            failed = failed or found.outcome == "failed"
    except StepError as error:
        click.echo(f"error: {error}\n  help: {error.advice}", err=True)
        failed = True
    if failed:
        raise click.exceptions.Exit(EXIT_ERRORS)

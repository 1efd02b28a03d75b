"""`recipe logs`: print the output of a stage."""

import click

from posttrain.cli.home_option import (
    find_run,
    home_option,
    resolve_home,
    unknown_names_as_usage_errors,
)
from posttrain.cli.invalid_usage import EXIT_ERRORS


@click.command("logs")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option("--follow", "-f", is_flag=True, help="Follow the log while the stage runs.")
@click.option("--raw", is_flag=True, help="Print the text as the stage wrote it, with progress bars.")
def command(stage: str, home: str | None, name: str | None, follow: bool, raw: bool) -> None:
    """Print the log of STAGE: its output, and the metrics, checkpoints and warnings that it reported."""
    from posttrain.runtime.inspection.step_log import NoLog, find_log, read_log

    where = resolve_home(home)
    with unknown_names_as_usage_errors():
        found = find_log(where, find_run(where, name), stage)
    if isinstance(found, NoLog):
        click.echo(found.reason + (f"\n  {found.advice}" if found.advice else ""), err=True)
        raise click.exceptions.Exit(EXIT_ERRORS)
    is_empty = True
    for text in read_log(found, follow=follow, raw=raw):
        is_empty = is_empty and not text
        click.echo(text, nl=False)
    if is_empty:
        click.echo(f"`{stage}` has printed nothing", err=True)

"""`recipe logs`: print the output of a stage."""

import time
from pathlib import Path

import click

from posttrain.cli.compile import EXIT_ERRORS, InvalidUsage
from posttrain.cli.home_option import find_run, home_option, resolve_home


@click.command("logs")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option("--follow", "-f", is_flag=True, help="Follow the log while the stage runs.")
def command(stage: str, home: str | None, name: str | None, follow: bool) -> None:
    """Print the log of STAGE."""
    from posttrain.runtime.store.runs import find_step_record, step_ids
    from posttrain.spec.suggestions import hint

    where = resolve_home(home)
    folder = find_run(where, name)
    known = step_ids(folder)
    if stage not in known:
        raise InvalidUsage(
            f"the run {folder.name} has no step `{stage}`; {hint(stage, known, what='steps')[0]}"
        )
    record = find_step_record(where, folder, stage)
    if record is None or not (record / "log").exists():
        click.echo(f"`{stage}` has not run yet", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS)
    if not follow and (record / "log").stat().st_size == 0:
        click.echo(f"`{stage}` has printed nothing; its metrics are in {record / 'events.jsonl'}", err=True)
    _print_log(record / "log", follow)


def _print_log(log: Path, follow: bool) -> None:
    with log.open(encoding="utf-8", errors="replace") as file:
        while True:
            text = file.read()
            if text:
                click.echo(text, nl=False)
            elif not follow or not log.exists():  # the record of a finished step moves to the store
                return
            else:
                time.sleep(0.2)

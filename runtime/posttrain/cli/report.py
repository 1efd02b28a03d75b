"""`recipe report`: one page about a run, readable without a network."""

from pathlib import Path

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home


@click.command("report")
@home_option
@click.option("--run", "name", metavar="NAME", help="A run by the beginning of its name; else the newest.")
@click.option(
    "--output", "-o", "file", type=click.Path(dir_okay=False), help="Write it to FILE, not into the run."
)
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
def command(home: str | None, name: str | None, file: str | None, show: bool) -> None:
    """Write the report of a run anew, and print where it lies."""
    from posttrain.runtime.report.report_writer import write_report

    where = resolve_home(home)
    path = write_report(where, find_run(where, name), Path(file).absolute() if file else None)
    click.echo(path)
    if show:
        click.launch(path.as_uri())

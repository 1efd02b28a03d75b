"""`recipe report`: one page about a run, readable offline."""

from pathlib import Path

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home


@click.command("report")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option(
    "--output",
    "-o",
    "file",
    type=click.Path(dir_okay=False),
    help="Write the report to FILE instead of the folder of the run.",
)
@click.option("--open", "show", is_flag=True, help="Open the report in a browser.")
def command(home: str | None, name: str | None, file: str | None, show: bool) -> None:
    """Write the report of a run, and print its path."""
    from posttrain.runtime.report.report_writer import write_report

    where = resolve_home(home)
    path = write_report(where, find_run(where, name), Path(file).absolute() if file else None)
    click.echo(path)
    if show:
        click.launch(path.as_uri())

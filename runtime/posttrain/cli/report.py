"""`recipe report`: one page about a run, or about the differences of several, readable offline."""

from collections.abc import Sequence
from pathlib import Path

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home
from posttrain.cli.run_argument import FoundRun, find_runs


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@home_option
@click.option(
    "--output",
    "-o",
    "file",
    type=click.Path(dir_okay=False),
    help="Write the page to FILE instead of the folder of the run.",
)
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
def command(runs: tuple[str, ...], home: str | None, file: str | None, show: bool) -> None:
    """Write the report of a run, and print its path.

    RUN is the start of the name of a run, the name from --name, or the path of a run's folder, which can be
    in another home; default: the newest run. Several runs are compared with the first: training curves,
    metrics with paired intervals, recipes, and items with another outcome. That page is comparison.html in
    the folder of the last run.
    """
    where = resolve_home(home)
    found = find_runs(where, runs) or [(where, find_run(where, None))]
    to = Path(file).absolute() if file else None
    path = _write_report(found[0], to) if len(found) == 1 else _write_comparison(found, to)
    click.echo(path)
    if show:
        click.launch(path.as_uri())


def _write_report(found: FoundRun, to: Path | None) -> Path:
    from posttrain.runtime.report.report_writer import write_report

    return write_report(*found, to)


def _write_comparison(found: Sequence[FoundRun], to: Path | None) -> Path:
    from posttrain.cli.run_recipes import compare_run_recipes
    from posttrain.runtime.comparison.comparison_page import COMPARISON_FILE, write_comparison

    path = to or found[-1][1] / COMPARISON_FILE
    write_comparison(found, compare_run_recipes([run for _, run in found]), path)
    return path

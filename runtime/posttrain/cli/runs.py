"""`recipe runs`: list all runs of a home, oldest first."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.home_option import home_option, resolve_home

if TYPE_CHECKING:
    from posttrain.runtime.inspection.run_status import RunSummary


@click.command("runs")
@home_option
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="The output format."
)
def command(home: str | None, form: str) -> None:
    """Show all runs: start, result, steps, duration."""
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.inspection.run_status import list_run_summaries
    from posttrain.runtime.report.number_format import format_duration, format_timestamp

    where = resolve_home(home)
    found = list(list_run_summaries(where))
    if form == "json":
        click.echo(json.dumps([_summary_data(run) for run in found], indent=1, sort_keys=True))
        return
    rows = [
        (
            run.name,
            format_timestamp(run.began),
            run.state,
            _state_counts(run.steps),
            format_duration(run.seconds),
        )
        for run in found
    ]
    if not rows:
        click.echo(f"no runs in {where.root}")
        return
    print_table(("run", "began", "state", "steps", "took"), rows, state=2)


def _summary_data(run: "RunSummary") -> dict[str, Any]:
    return {
        "run": run.name,
        "recipe": run.recipe,
        "began": run.began,
        "ended": run.ended,
        "result": run.result,
        "state": run.state,
        "seconds": run.seconds,
        "steps": dict(run.steps),
    }


def _state_counts(steps: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in steps.items())

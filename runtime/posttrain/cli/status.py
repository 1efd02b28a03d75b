"""`recipe status`: the states and results of the steps of a run."""

import json
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home

if TYPE_CHECKING:
    from posttrain.runtime.inspection.run_status import RunStatus, StepStatus

_MAX_METRICS = 3  # per line of a step


@click.command("status")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="The output format."
)
def command(home: str | None, name: str | None, form: str) -> None:
    """Show the steps of a run: state, time, memory, results."""
    from posttrain.runtime.inspection.run_status import UnreadableStatus, read_run_status

    place = resolve_home(home)
    try:
        status = read_run_status(place, find_run(place, name))
    except UnreadableStatus as damage:
        advice = "finished steps are in the store: `recipe run` continues from there"
        raise click.ClickException(f"{damage}; {advice}") from None
    if form == "json":
        click.echo(json.dumps(_status_data(status), indent=1, sort_keys=True))
    else:
        _print_status(status)


def _status_data(status: "RunStatus") -> dict[str, Any]:
    from posttrain.cli.results import result_data

    steps: list[dict[str, Any]] = []
    for step in status.steps:
        last = {"last_metrics": step.metrics} if step.metrics else {}
        steps.append({**vars(step.entry), "outcome": {**result_data(step.facts), **last}})
    return {
        "run": status.name,
        "recipe": status.recipe,
        "began": status.began,
        "ended": status.ended,
        "result": status.result,
        "steps": steps,
    }


def _print_status(status: "RunStatus") -> None:
    from posttrain.cli.text_tables import print_table

    click.echo(f"run {status.name}: {status.result or 'running or interrupted'}")
    rows = [
        (s.entry.id, s.entry.state, *_time_and_memory(s), _result_text(s), s.entry.reason)
        for s in status.steps
    ]
    # Empty columns are omitted.
    shown = [0, 1, *(column for column in range(2, 7) if any(row[column] for row in rows)), 7]
    header = ("step", "state", "took", "expected", "memory", "expected", "result", "why")
    print_table([header[c] for c in shown], [[row[c] for c in shown] for row in rows], state=1)


def _result_text(step: "StepStatus") -> str:
    from posttrain.cli.results import metric_lines, result_lines

    return "  ".join([*metric_lines(step.metrics), *result_lines(step.facts, _MAX_METRICS)])


def _time_and_memory(step: "StepStatus") -> tuple[str, str, str, str]:
    """Time and peak memory, each with the plan's estimate; GPU memory if the step used a GPU."""
    from posttrain.runtime.report.number_format import (
        finite_or_none,
        format_duration,
        format_short_duration,
    )

    cost, estimate = step.entry.cost, step.entry.estimate
    seconds, expected = finite_or_none(cost.get("seconds")), finite_or_none(estimate.get("seconds"))
    peak = finite_or_none(cost.get("peak_gpu_mb", cost.get("peak_memory_mb")))
    memory = finite_or_none(estimate.get("memory_gb"))
    return (
        "" if seconds is None else format_duration(seconds),
        "" if expected is None else format_short_duration(expected),
        "" if peak is None else f"{peak * 2**20 / 10**9:.1f} GB",
        "" if memory is None else f"{memory:.1f} GB",
    )

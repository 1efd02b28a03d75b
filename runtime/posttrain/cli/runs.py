"""`recipe runs`: list the runs of a home with their metrics, oldest first."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.home_option import home_option, resolve_home

if TYPE_CHECKING:
    from posttrain.runtime.inspection.run_status import RunSummary

_MAX_METRICS = 3


@click.command("runs")
@home_option
@click.option(
    "--sort",
    "key",
    metavar="FIELD",
    help="Sort by began, name, recipe, state, took, or a metric such as after.accuracy; `--sort=-FIELD`"
    " reverses the order.",
)
@click.option(
    "--filter",
    "expressions",
    metavar="EXPR",
    multiple=True,
    help="Show only the runs for which it holds: state=, tag=, recipe= or name= with a value (or !=), or a"
    " metric with a number, such as after.accuracy>0.8. Can be repeated: all must hold.",
)
@click.option(
    "--metric",
    "metrics",
    metavar="STAGE.METRIC",
    multiple=True,
    help="A metric to show; can be repeated. Default: the last ones that most runs have.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="The output format."
)
def command(
    home: str | None, key: str | None, expressions: tuple[str, ...], metrics: tuple[str, ...], form: str
) -> None:
    """Show all runs: start, state, steps, duration, main metrics, tags."""
    from posttrain.cli.run_selection import filter_runs, main_metrics, sort_runs
    from posttrain.runtime.inspection.run_status import list_run_summaries

    where = resolve_home(home)
    listed = list(list_run_summaries(where))
    found = sort_runs(filter_runs(listed, expressions), key)
    if form == "json":
        click.echo(json.dumps([_summary_data(run) for run in found], indent=1, sort_keys=True))
    elif not found:
        click.echo(f"no run in {where.root} fits" if listed else f"no runs in {where.root}")
    else:
        _print_runs(found, metrics or main_metrics(found, _MAX_METRICS))


def _print_runs(runs: "Sequence[RunSummary]", metrics: Sequence[str]) -> None:
    """The table of the runs. Columns for names and tags are there only if a run has some."""
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.report.number_format import format_duration, format_timestamp

    columns = [
        ("run", [run.name for run in runs]),
        ("name", [run.labels.name for run in runs]),
        ("began", [format_timestamp(run.began) for run in runs]),
        ("state", [run.state for run in runs]),
        ("steps", [_state_counts(run.steps) for run in runs]),
        ("took", [format_duration(run.seconds) for run in runs]),
        *((name, [_metric_text(run, name) for run in runs]) for name in metrics),
        ("tags", [", ".join(run.labels.tags) for run in runs]),
    ]
    shown = [(head, cells) for head, cells in columns if head not in ("name", "tags") or any(cells)]
    heads = [head for head, _ in shown]
    rows = list(zip(*(cells for _, cells in shown), strict=True))
    print_table(heads, rows, state=heads.index("state"))


def _metric_text(run: "RunSummary", name: str) -> str:
    metric = run.metrics.get(name)
    if metric is None:
        return ""
    value, low, high = (metric[end] for end in ("value", "low", "high"))
    ends = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.3f}{ends}"


def _summary_data(run: "RunSummary") -> dict[str, Any]:
    return {
        "run": run.name,
        "name": run.labels.name,
        "tags": list(run.labels.tags),
        "note": run.labels.note,
        "recipe": run.recipe,
        "began": run.began,
        "ended": run.ended,
        "result": run.result,
        "state": run.state,
        "seconds": run.seconds,
        "steps": dict(run.steps),
        "metrics": {name: dict(metric) for name, metric in run.metrics.items()},
    }


def _state_counts(steps: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in steps.items())

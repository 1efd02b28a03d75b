"""`recipe status`: the states and results of the steps of a run."""

import contextlib
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home

if TYPE_CHECKING:
    from posttrain.runtime.inspection.run_status import RunStatus, StepStatus
    from posttrain.runtime.store.home import Home

_MAX_METRICS = 3  # per line of a step
_WATCH_SECONDS = 1.0
# Which steps are shown if the terminal has not enough lines for all.
_WATCH_ORDER = {
    "running": 0,
    "failed": 0,
    "queued": 1,
    "interrupted": 1,
    "held": 1,
    "blocked": 3,
    "waiting": 3,
}


@click.command("status")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="The output format."
)
@click.option(
    "--watch", "-w", is_flag=True, help="Update the table on the terminal every second until the run ends."
)
def command(home: str | None, name: str | None, form: str, watch: bool) -> None:
    """Show the steps of a run: state, time, memory, results."""
    if watch and (form == "json" or not sys.stdout.isatty()):
        raise click.UsageError("--watch needs a terminal; in a script, call `recipe status --format json`")
    place = resolve_home(home)
    run = find_run(place, name)
    if watch:
        _watch(place, run)
        return
    status = _read_status(place, run)
    if form == "json":
        click.echo(json.dumps(_status_data(status), indent=1, sort_keys=True))
    else:
        click.echo("\n".join(_status_lines(status)))


def _read_status(place: "Home", run: Path) -> "RunStatus":
    from posttrain.runtime.inspection.run_status import UnreadableStatus, read_run_status

    try:
        return read_run_status(place, run)
    except UnreadableStatus as damage:
        advice = "finished steps are in the store: `recipe run` continues from there"
        raise click.ClickException(f"{damage}; {advice}") from None


def _watch(place: "Home", run: Path) -> None:
    """Overwrite the table every second. Ctrl-C ends the command, not the run."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            status = _read_status(place, run)
            height = shutil.get_terminal_size().lines
            lines = _status_lines(status, max_steps=max(1, height - 4))
            # From the top, each line and the rest of the screen cleared after it is written: no flicker.
            click.echo("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J", nl=False)
            if not status.is_running:
                return
            time.sleep(_WATCH_SECONDS)


def _status_data(status: "RunStatus") -> dict[str, Any]:
    from posttrain.cli.results import result_data

    steps: list[dict[str, Any]] = []
    for step in status.steps:
        last = {"last_metrics": step.metrics} if step.metrics else {}
        progress = {"progress": dict(step.progress)} if step.progress is not None else {}
        steps.append({**vars(step.entry), "outcome": {**result_data(step.facts), **last, **progress}})
    return {
        "run": status.name,
        "recipe": status.recipe,
        "began": status.began,
        "ended": status.ended,
        "result": status.result,
        "steps": steps,
    }


def _status_lines(status: "RunStatus", max_steps: int | None = None) -> list[str]:
    from posttrain.cli.text_tables import table_lines

    state = status.result or ("running" if status.is_running else "interrupted")
    steps, omitted = selected_steps(status.steps, max_steps)
    rows = [(s.entry.id, s.entry.state, *_time_and_memory(s), _result_text(s), s.entry.reason) for s in steps]
    # Empty columns are omitted.
    shown = [0, 1, *(column for column in range(2, 7) if any(row[column] for row in rows)), 7]
    header = ("step", "state", "took", "expected", "memory", "expected", "result", "why")
    table = table_lines([header[c] for c in shown], [[row[c] for c in shown] for row in rows], state=1)
    return [f"run {status.name}: {state}", *table, *omitted]


def selected_steps(
    steps: "Sequence[StepStatus]", most: int | None
) -> tuple["Sequence[StepStatus]", Sequence[str]]:
    """At most so many steps, those that run or failed first, in the order of the plan; and the others in
    one line."""
    if most is None or len(steps) <= most:
        return steps, ()
    ranked = sorted(range(len(steps)), key=lambda index: _WATCH_ORDER.get(steps[index].entry.state, 2))
    kept = set(ranked[: max(1, most - 1)])
    counts = Counter(step.entry.state for index, step in enumerate(steps) if index not in kept)
    others = ", ".join(f"{count} {state}" for state, count in counts.items())
    return [step for index, step in enumerate(steps) if index in kept], [f"and {others}"]


def _result_text(step: "StepStatus") -> str:
    from posttrain.cli.results import result_lines
    from posttrain.runtime.report.progress_text import metrics_text, progress_text

    if step.progress is not None:
        return progress_text({**step.progress, "metrics": step.metrics})
    # The product of a training has the metrics of its last or best evaluation.
    shown = {name: value for name, value in step.metrics.items() if name != "eval/loss" or not step.facts}
    return "  ".join(filter(None, (metrics_text(shown), *result_lines(step.facts, _MAX_METRICS))))


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

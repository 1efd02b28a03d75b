"""Tables: adapted to the width of a terminal, complete and stable elsewhere."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from posttrain.cli.step_details import describe_nodes
from posttrain.runtime.execution.dry_run import StepForecast

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan


_STATE_COLORS = {
    "cached": "green",
    "done": "green",
    "resume": "cyan",
    "running": "cyan",
    "queued": "yellow",
    "run": "yellow",
    "skipped": "bright_black",
    "failed": "red",
    "held": "magenta",
    "blocked": "magenta",
    "interrupted": "yellow",
}

# The states of steps that a run would execute.
PENDING_STATES = ("run", "resume")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], state: int | None = None) -> None:
    """Print a table; the column `state` is colored by its value."""
    for line in table_lines(header, rows, state):
        click.echo(line)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], state: int | None = None) -> list[str]:
    """The lines of a table. Its columns are as wide as their content, unless that exceeds the terminal."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if terminal is not None and sum(widths) + 2 * (len(widths) - 1) > terminal:
        from posttrain.cli.table_layout import fit_table  # imports rich, which most tables do not need

        return fit_table(header, rows, state, _STATE_COLORS, terminal)
    lines = [click.style(_header_line(header, widths), bold=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if state is not None:
            cells[state] = click.style(cells[state], fg=_STATE_COLORS.get(row[state]))
        lines.append("  ".join(cells).rstrip())
    return lines


def _header_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def print_plan_table(plan: "Plan", prospects: Mapping[str, StepForecast], locked: bool = True) -> None:
    """Print the steps of a plan with state and estimate, and a summary."""
    from posttrain.cli.estimate_text import api_total, estimate_cells, part_times, total_estimate

    estimates = {
        step.id: estimate_cells(step.estimate if prospects[step.id].state in PENDING_STATES else None)
        for step in plan.steps
    }
    # Empty columns are omitted.
    shown = [column for column in range(3) if any(row[column] for row in estimates.values())]
    rows = [
        (
            step.id,
            step.kind,
            prospects[step.id].state,
            *(estimates[step.id][column] for column in shown),
            step.key[:10],
            prospects[step.id].reason,
        )
        for step in plan.steps
    ]
    named = (("time", "memory", "cost")[column] for column in shown)
    print_table(("step", "kind", "state", *named, "key", "why"), rows, state=2)
    pending = [step for step in plan.steps if prospects[step.id].state in PENDING_STATES]
    if not pending:
        click.echo("nothing to run")
        return
    click.echo(
        ", ".join(_state_counts(prospects))
        + (f"; {total_estimate(pending)}" if total_estimate(pending) else "")
    )
    if part_times(pending):
        click.echo(f"time by part: {part_times(pending)}")
    for line in api_total(pending):
        click.echo(line)
    for step in plan.steps:
        if step.launch.all_nodes > 1:
            click.echo(f"{step.id} runs on {describe_nodes(step.launch)}: on a cluster, with `--on NAME`")
    loose = _unpinned_steps(plan) if not locked else []
    if loose:
        what = ", ".join(loose[:3]) + (f" and {len(loose) - 3} more" if len(loose) > 3 else "")
        click.echo(f"not pinned to a revision: {what}; `recipe lock` pins them, for runs with --locked")


def _unpinned_steps(plan: "Plan") -> list[str]:
    """The models and datasets that `recipe lock` pins: those without a revision and with pinned inputs."""
    pinned = {step.id: step.pinned for step in plan.steps}
    return [
        step.id
        for step in plan.steps
        if step.kind in ("model", "data")
        and not step.pinned
        and all(pinned[source.step] for source in step.inputs.values())
    ]


def _state_counts(prospects: Mapping[str, StepForecast]) -> list[str]:
    labels = {"run": "to run", "resume": "to resume", "cached": "cached", "skipped": "skipped"}
    counts = {state: sum(p.state == state for p in prospects.values()) for state in labels}
    return [f"{counts[state]} {label}" for state, label in labels.items() if counts[state]]

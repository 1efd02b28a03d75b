"""Tables for people."""

from collections.abc import Mapping, Sequence

import click

from posttrain.runtime.outlook import Prospect
from posttrain.spec.plan import Plan

_COLOURS = {
    "cached": "green",
    "done": "green",
    "resume": "cyan",
    "running": "cyan",
    "run": "yellow",
    "failed": "red",
    "held": "magenta",
    "blocked": "magenta",
    "interrupted": "yellow",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]], state: int | None = None) -> None:
    """Columns as wide as their content; the column `state` in the colour of what it says."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    click.echo(click.style(_line(header, widths), bold=True))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if state is not None:
            cells[state] = click.style(cells[state], fg=_COLOURS.get(row[state]))
        click.echo("  ".join(cells).rstrip())


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def plan_table(plan: Plan, prospects: Mapping[str, Prospect]) -> None:
    """The steps of a plan with what is to be expected of each."""
    rows = [
        (step.id, step.kind, prospects[step.id].state, step.key[:10], prospects[step.id].reason)
        for step in plan.steps
    ]
    table(("step", "kind", "state", "key", "why"), rows, state=2)
    counts = {
        state: sum(p.state == state for p in prospects.values()) for state in ("cached", "resume", "run")
    }
    if counts["cached"] == len(rows):
        click.echo("nothing to run")
        return
    parts = [f"{counts['run']} to run"] if counts["run"] else []
    parts += [f"{counts['resume']} to resume"] if counts["resume"] else []
    parts += [f"{counts['cached']} cached"] if counts["cached"] else []
    click.echo(", ".join(parts))

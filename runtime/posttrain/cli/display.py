"""What a run shows while it goes on: bars on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from posttrain.runtime.keeping.home import Home
from posttrain.runtime.report.figures import duration
from posttrain.spec.plan import Plan

_MARKS = {
    "cached": ("=", "cyan"),
    "done": ("+", "green"),
    "failed": ("x", "red"),
    "held": ("-", "magenta"),
    "blocked": ("-", "magenta"),
    "interrupted": ("~", "yellow"),
    "waiting": ("~", "yellow"),
    "skipped": (".", "bright_black"),
}


class Display:
    """Told of every change of a step; prints one line when it ends, and a bar while it runs."""

    def __init__(self, plan: Plan, run: Path) -> None:
        self.plan = plan
        self.run = run
        self.width = max(len(step.id) for step in plan.steps)
        self.began = time.monotonic()
        self.bars: Any = None
        self.tasks: dict[str, Any] = {}
        self.shown: dict[str, float] = {}
        self.terminal = sys.stdout.isatty()

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def changed(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        match state:
            case "progress":
                self._progress(id, known)
            case "running":
                self._begin(id)
            case _:
                self._end(id, state, known)

    def note(self, text: str) -> None:
        """A line of its own."""
        if self.bars is not None:
            self.bars.console.print(text, highlight=False, markup=False)
        else:
            click.echo(text)

    def _begin(self, id: str) -> None:
        if not self.terminal:
            click.echo(f"> {id.ljust(self.width)}  started")
            return
        if self.bars is None:
            self.bars = _bars()
            self.bars.start()
        self.tasks[id] = self.bars.add_task(id.ljust(self.width), total=None, what="starting")

    def _progress(self, id: str, event: Mapping[str, Any]) -> None:
        total, done, unit = event["total"], event["done"], event["unit"]
        what = " ".join([f"{done}/{total} {unit}", event.get("figures", "")]).strip()
        if id in self.tasks:
            self.bars.update(self.tasks[id], completed=done, total=total, what=what)
        elif not self.terminal and time.monotonic() - self.shown.get(id, 0.0) > 5:
            self.shown[id] = time.monotonic()
            click.echo(f"  {id.ljust(self.width)}  {what}")

    def _end(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        if id in self.tasks:
            self.bars.remove_task(self.tasks.pop(id))
        mark, colour = _MARKS[state]
        detail = _detail(state, known)
        line = f"{mark} {id.ljust(self.width)}  {state}" + (f"  {detail}" if detail else "")
        if self.bars is not None:
            self.bars.console.print(line, style=colour, highlight=False, markup=False)
        elif state == "cached" and not self.terminal:
            sys.stdout.write(f"{line}\n")  # there may be a thousand, and none of them is awaited
        else:
            click.secho(line, fg=colour)
        if known.get("advice"):
            self.note(f"  {' ' * self.width}  {known['advice']}")

    def summary(self, states: Mapping[str, str], home: Home, run: Path) -> None:
        """The last lines: what came out, and where to look."""
        took = duration(time.monotonic() - self.began)
        counts = {state: sum(s == state for s in states.values()) for state in _MARKS}
        if counts["cached"] + counts["skipped"] == len(states):
            click.echo(f"nothing to run: all {counts['cached']} steps finished before")
            return
        parts = [f"{count} {state}" for state, count in counts.items() if count]
        click.echo(f"{', '.join(parts)} in {took}")
        failed = [id for id, state in states.items() if state == "failed"]
        if failed:
            click.echo(f"look closer: recipe logs {failed[0]}")
        report = run / "report.html"
        if report.exists():
            click.echo(f"report: {_near(report)}")


def _near(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _detail(state: str, known: Mapping[str, Any]) -> str:
    if state not in ("done", "cached"):
        return str(known.get("reason", ""))
    facts: Mapping[str, Any] = known.get("facts", {})
    parts = [duration(known["cost"]["seconds"])] if state == "done" else []
    for name, metric in facts.get("metrics", {}).items():
        if metric["value"] is not None:
            low, high = metric["low"], metric["high"]
            ends = "" if low is None else f" [{low:.3f}, {high:.3f}]"  # of one item there are none
            parts.append(f"{name} {metric['value']:.3f}{ends}")
    parts += [f"{facts[key]:.1%} {word}" for key, word in _SHARES.items() if facts.get(key)]
    parts += [f"verdict: {facts['verdict']}", *_undecided(facts)] if "verdict" in facts else []
    parts += [
        f"{n} rows" if k == "rows.all" else f"{n} {k[5:]} rows"
        for k, n in facts.items()
        if k.startswith("rows.")
    ]
    return "  ".join(parts)


# The shares of an eval's completions that nobody wants, by their names among its facts.
_SHARES = {"unscored": "unscored", "cut": "cut short", "timed_out": "timed out", "failed": "without a reply"}


def _undecided(facts: Mapping[str, Any]) -> Iterator[str]:
    """The conditions of a gate that did not pass, with what they were decided by."""
    for one in facts.get("conditions", ()):
        if one["verdict"] != "pass":
            numbers = (
                "" if one["low"] is None else f": {one['value']:.3g} [{one['low']:.3g}, {one['high']:.3g}]"
            )
            yield f"{one['verdict']}: {one['text']}{numbers}"


def _bars() -> Any:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(),
        transient=True,
    )

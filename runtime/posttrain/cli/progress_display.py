"""Progress of a run: bars on a terminal, plain lines elsewhere."""

import errno
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.interrupts import leave_terminal
from posttrain.cli.results import result_lines
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.execution.run_plan import RunResult
from posttrain.runtime.preflight.finding import Finding
from posttrain.runtime.report.number_format import format_duration, format_size
from posttrain.runtime.report.progress_text import metrics_text, progress_text

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan


_STATE_STYLES = {
    "cached": ("=", "cyan"),
    "done": ("+", "green"),
    "failed": ("x", "red"),
    "held": ("-", "magenta"),
    "blocked": ("-", "magenta"),
    "interrupted": ("~", "yellow"),
    "waiting": ("~", "yellow"),
    "queued": ("~", "yellow"),
    "skipped": (".", "bright_black"),
    "warning": ("!", "yellow"),
}
# Of gates, whose step is done after each of them.
_VERDICT_STYLES = {"fail": ("!", "red"), "inconclusive": ("?", "yellow")}
_MAX_WARNINGS = 10  # per step; the report lists all of them


class ProgressDisplay(RunObserver):
    """Prints one line per state change of a step and, on a terminal, a progress bar while it runs."""

    def __init__(self, plan: "Plan", folder: Path) -> None:
        self.folder = folder
        self.width = max(len(step.id) for step in plan.steps)
        # Their last line has every condition that is not met: as a warning, each would be printed twice.
        self.gates = frozenset(step.id for step in plan.steps if step.kind == "gate")
        self.start_time = time.monotonic()
        self.bars: Any = None
        self.tasks: dict[str, Any] = {}
        self.last_shown: dict[str, float] = {}
        # The last loss and reward of each training.
        self.metrics: dict[str, Mapping[str, float]] = {}
        self.warning_counts: dict[str, int] = {}
        # The steps whose queue has been reported.
        self.queued: set[str] = set()
        self.is_terminal = sys.stdout.isatty()

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def execution(self, run: Path) -> AbstractContextManager[object]:
        self.start_time = time.monotonic()
        return nullcontext()

    def on_findings(self, findings: Sequence[Finding]) -> None:
        from posttrain.cli.preflight_output import print_findings

        print_findings(findings, self.folder)

    def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        try:
            self._show(id, state, known)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            leave_terminal()  # it was closed: SIGHUP follows, which ends the run in order

    def _show(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        match state:
            case "progress":
                self._progress(id, known)
            case "fetching":
                self._fetch(id, known["done"], known["total"])
            case "queued":
                self._queue(id, known["reason"])
            case "running":
                self._begin(id)
            case "warning":
                self._warn(id, known)
            case "details":
                self.note(known["text"])
            case _:
                self._end(id, state, known)

    def note(self, text: str) -> None:
        """Print a message on a separate line."""
        if self.bars is not None:
            self.bars.console.print(text, highlight=False, markup=False)
        else:
            click.echo(text)

    def _queue(self, id: str, reason: str) -> None:
        if self.is_terminal:
            self._show_task(id, f"queued: {reason}" if reason else "queued")
        elif reason and id not in self.queued:  # the reasons change often
            self.queued.add(id)
            self._print_state(id, "queued", {"reason": reason})

    def _begin(self, id: str) -> None:
        self.queued.discard(id)
        self.metrics.pop(id, None)
        if self.is_terminal:
            self._show_task(id, "starting")
        else:
            click.echo(f"> {id.ljust(self.width)}  started")

    def _show_task(self, id: str, what: str) -> None:
        """Show a step that has made no progress yet."""
        if self.bars is None:
            self.bars = _progress_bars()
            self.bars.start()
        if id in self.tasks:
            self.bars.update(self.tasks[id], what=what)
        else:
            self.tasks[id] = self.bars.add_task(id.ljust(self.width), total=None, what=what)

    def _progress(self, id: str, event: Mapping[str, Any]) -> None:
        self.metrics[id] = event["metrics"]
        what = progress_text(event)
        if id in self.tasks:
            self.bars.update(self.tasks[id], completed=event["done"], total=event["total"], what=what)
        elif not self.is_terminal and time.monotonic() - self.last_shown.get(id, 0.0) > 5:
            self.last_shown[id] = time.monotonic()
            click.echo(f"  {id.ljust(self.width)}  {what}")

    def _fetch(self, id: str, done: int, total: int) -> None:
        """Show the download of a product from a cache."""
        what = f"fetching {format_size(done)} of {format_size(total)}"
        if self.is_terminal:
            if id not in self.tasks:
                self._show_task(id, what)
            self.bars.update(self.tasks[id], completed=done, total=total, what=what)
        elif time.monotonic() - self.last_shown.get(id, 0.0) > 5:
            self.last_shown[id] = time.monotonic()
            click.echo(f"  {id.ljust(self.width)}  {what}")

    def _warn(self, id: str, known: Mapping[str, Any]) -> None:
        if id in self.gates:
            return
        count = self.warning_counts[id] = self.warning_counts.get(id, 0) + 1
        if count < _MAX_WARNINGS:
            self._print_state(id, "warning", known)
        elif count == _MAX_WARNINGS:
            self._print_state(id, "warning", {"reason": "more warnings follow; the report lists all of them"})

    def _end(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        if id in self.tasks:
            self.bars.remove_task(self.tasks.pop(id))
        self._print_state(id, state, {**known, "metrics": self.metrics.pop(id, {})})

    def _print_state(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        mark, color = _VERDICT_STYLES.get(known.get("facts", {}).get("verdict"), _STATE_STYLES[state])
        detail = _detail(state, known)
        line = f"{mark} {id.ljust(self.width)}  {state}" + (f"  {detail}" if detail else "")
        if self.bars is not None:
            self.bars.console.print(line, style=color, highlight=False, markup=False)
        elif state == "cached" and not self.is_terminal:
            sys.stdout.write(f"{line}\n")  # a plan may have a thousand: do not flush each line
        else:
            click.secho(line, fg=color)
        if known.get("advice"):
            self.note(f"  {' ' * self.width}  {known['advice']}")

    def summary(self, result: RunResult) -> None:
        """Print the final counts, the log command of a failed step, and the path of the report."""
        if result.report_error:
            hint = "retry with `recipe report`"
            click.echo(f"the report could not be written ({result.report_error}); {hint}", err=True)
        took = format_duration(time.monotonic() - self.start_time)
        states = result.states
        counts = {state: sum(s == state for s in states.values()) for state in _STATE_STYLES}
        if counts["cached"] + counts["skipped"] == len(states):
            click.echo(f"nothing to run: all {counts['cached']} steps are cached")
            return
        parts = [f"{count} {state}" for state, count in counts.items() if count]
        click.echo(f"{', '.join(parts)} in {took}")
        failed = [id for id, state in states.items() if state == "failed"]
        if failed:
            click.echo(f"see: recipe logs {failed[0]}")
        if result.report is not None:
            click.echo(f"report: {_relative_path(result.report)}")


def _relative_path(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _detail(state: str, known: Mapping[str, Any]) -> str:
    if state not in ("done", "cached"):
        return str(known.get("reason", ""))
    if state == "done":
        parts = [format_duration(known["cost"]["seconds"]), metrics_text(known.get("metrics", {}))]
    else:
        parts = [known.get("reason", "")]
    return "  ".join(filter(None, (*parts, *result_lines(known.get("facts", {})))))


def _progress_bars() -> Any:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(),
        transient=True,
    )

"""The process that feeds trackers.

`python -m posttrain.runtime.trackers.tracker_process HOME RUN TRACKER...`

It follows the run through the events on the disk, so that a slow, hanging or failing tracker cannot
delay a step. It runs until its standard input is closed, sends the remaining metrics, and writes
warnings to RUN/tracking.jsonl.
"""

import json
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import load_plan, run_key
from posttrain.runtime.trackers.metrics_reader import MetricsReader
from posttrain.runtime.trackers.tracker_feed import TrackerFeed
from posttrain.runtime.trackers.tracker_protocol import TrackedStep
from posttrain.spec.plan import Plan, Step

WARNINGS_FILE = "tracking.jsonl"
# The kinds of steps that have metrics.
TRACKED_KINDS = ("train", "eval")
_POLL_SECONDS = 0.5  # the time between two polls


def feed_state_path(home: Home, key: str, tracker: str) -> Path:
    """The file that records the last metrics of a step that were sent to a tracker."""
    return sent_folder(home) / f"{key}.{tracker}.json"


def sent_folder(home: Home) -> Path:
    return home.root / "tracking" / "sent"


def follow_run(home: Home, run: Path, trackers: Sequence[str], patience: float = _POLL_SECONDS) -> None:
    """Feed the trackers until standard input is closed, then send the rest."""
    plan = load_plan(run)
    if plan is None:
        return
    steps = [step for step in plan.steps if step.kind in TRACKED_KINDS]
    followed = [_StepFollower(home, run, plan, step, trackers) for step in steps]
    while not _stdin_closed(patience):
        for one in followed:
            one.poll()
    for one in followed:
        one.poll()
        one.close()


def _stdin_closed(patience: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], patience)
    return bool(readable) and not sys.stdin.read(1)


class _StepFollower:
    """Follows one step and feeds its trackers."""

    def __init__(self, home: Home, run: Path, plan: Plan, step: Step, trackers: Sequence[str]) -> None:
        key = run_key(step, run.name)
        self._reader = MetricsReader(home, key)
        self._run = run
        self._step = step
        self._feeds: list[TrackerFeed] = []
        for name in trackers:
            tracked = TrackedStep(
                recipe=plan.name,
                run=run.name,
                step=step.id,
                key=key,
                kind=step.kind,
                params=step.params,
                folder=home.root / "tracking" / name,
            )
            feed = TrackerFeed(name, tracked, CATALOG.run("tracker", name), feed_state_path(home, key, name))
            feed.remove_leftovers()
            if not feed.finalized:
                self._feeds.append(feed)
        self._ended = not self._feeds

    def poll(self) -> None:
        if self._ended:
            return
        finished = self._reader.finished  # read first, so that the points below are complete
        points = list(self._reader.new_points())
        for feed in self._feeds:
            before = feed.error
            feed.send(points)
            if feed.error and not before:
                self._warn(f"{feed.name} failed and will be retried when the step ends: {feed.error}")
        if finished:
            self.close()

    def close(self) -> None:
        if self._ended:
            return
        self._ended = True
        for feed in self._feeds:
            feed.close(self._reader)
            if feed.error:
                self._warn(f"{feed.name} did not receive all metrics: {feed.error}")

    def _warn(self, message: str) -> None:
        with (self._run / WARNINGS_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": self._step.id, "message": message}) + "\n")


if __name__ == "__main__":
    from posttrain.runtime.worker import exit_process

    follow_run(Home(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3:])
    exit_process(0)

"""The process that feeds trackers: `python -m posttrain.runtime.trackers.follow HOME RUN PARENT TRACKER...`.

It follows the run from outside, by the events on the disk: a tracker that is slow, hangs or fails
holds no step up. It goes on until its standard input is closed, brings what is left to the
trackers, and writes what went wrong to RUN/tracking.jsonl.
"""

import json
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.runs import plan_of, run_key
from posttrain.runtime.trackers.feed import Feed
from posttrain.runtime.trackers.reading import Reading
from posttrain.runtime.trackers.topic import Topic
from posttrain.spec.plan import Plan, Step

WARNINGS = "tracking.jsonl"
# The kinds of steps that have figures.
KINDS = ("train", "eval")
_PAUSE = 0.5  # seconds between looks


def state_of(home: Home, key: str, tracker: str) -> Path:
    """Where is noted what a tracker has been sent of a step."""
    return home.root / "tracking" / "sent" / f"{key}.{tracker}.json"


def follow(home: Home, run: Path, trackers: Sequence[str], patience: float = _PAUSE) -> None:
    """Feed the trackers until standard input is closed, then once more."""
    plan = plan_of(run)
    if plan is None:
        return
    steps = [step for step in plan.steps if step.kind in KINDS]
    followed = [_Followed(home, run, plan, step, trackers) for step in steps]
    while not _closed(patience):
        for one in followed:
            one.look()
    for one in followed:
        one.look()
        one.end()


def _closed(patience: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], patience)
    return bool(readable) and not sys.stdin.read(1)


class _Followed:
    """A step and the trackers that are fed with it."""

    def __init__(self, home: Home, run: Path, plan: Plan, step: Step, trackers: Sequence[str]) -> None:
        key = run_key(step, run.name)
        self._reading = Reading(home, key)
        self._run = run
        self._step = step
        self._feeds: list[Feed] = []
        for name in trackers:
            topic = Topic(
                recipe=plan.name,
                run=run.name,
                step=step.id,
                key=key,
                kind=step.kind,
                params=step.params,
                folder=home.root / "tracking" / name,
            )
            feed = Feed(name, topic, CATALOG.run("tracker", name), state_of(home, key, name))
            if not feed.final:
                self._feeds.append(feed)
        self._ended = not self._feeds

    def look(self) -> None:
        if self._ended:
            return
        finished = self._reading.finished  # asked first: what came before it has come by then
        points = list(self._reading.new())
        for feed in self._feeds:
            before = feed.failed
            feed.take(points)
            if feed.failed and not before:
                self._warn(f"{feed.name} failed, and is tried again when the step ends: {feed.failed}")
        if finished:
            self.end()

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for feed in self._feeds:
            feed.end(self._reading)
            if feed.failed:
                self._warn(f"{feed.name} did not take all figures: {feed.failed}")

    def _warn(self, message: str) -> None:
        with (self._run / WARNINGS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": self._step.id, "message": message}) + "\n")


if __name__ == "__main__":
    from posttrain.runtime.worker import die_with, leave

    die_with(int(sys.argv[3]))
    follow(Home(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[4:])
    leave(0)

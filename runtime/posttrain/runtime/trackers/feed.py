"""Brings the figures of one step to one tracker, each of them once, however often the run is cut off.

What has been sent is noted point by point. Only the one that was under way when the process was killed
can be sent again: trackers are told from where on, and take it once where they can (TensorBoard purges,
MLflow and W&B know it again). A tracker that fails is left alone until the step ends, and then tried
once more.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.trackers.reading import Point, Reading
from posttrain.runtime.trackers.topic import Sink, Topic

Open = Callable[[Topic], Sink]
_NOWHERE = (-1, 0)


class Feed:
    def __init__(self, name: str, topic: Topic, open_sink: Open, state: Path) -> None:
        self.name = name
        self._topic = topic
        self._open = open_sink
        self._state = state
        known: Any = durable.read_json(state) or {}
        self._mark: tuple[int, int] = tuple(known.get("mark", _NOWHERE))
        self.final: bool = known.get("final", False)
        self._sink: Sink | None = None
        self._kept: list[Point] = []  # points that a tracker which fails has not taken
        self.failed = ""

    def take(self, points: Sequence[Point]) -> None:
        """Send what has not been sent before."""
        self._kept += [point for point in points if point.place > self._mark]
        if not self.failed:
            self._guarded(self._send_kept)

    def end(self, reading: Reading) -> None:
        """No more points come in this run. The tracker is told whether the step is done."""
        self.failed = ""
        self._guarded(lambda: self._finish(reading))
        self._sink = None

    def _finish(self, reading: Reading) -> None:
        finished = reading.finished
        self._send_kept()
        if finished and not self.final:
            step, values, at = reading.final()
            if values:
                self._opened().point(step, values, at)
        if self._sink is not None:
            self._sink.close(finished=finished)
        if finished:
            self._note(final=True)

    def _send_kept(self) -> None:
        while self._kept:
            point = self._kept[0]
            self._opened().point(point.place[0], point.values, point.at)
            self._mark = point.place
            self._note()
            self._kept.pop(0)

    def _opened(self) -> Sink:
        if self._sink is None:
            self._sink = self._open(replace(self._topic, told=self._mark[0]))
        return self._sink

    def _note(self, *, final: bool = False) -> None:
        self.final = final
        self._state.parent.mkdir(parents=True, exist_ok=True)
        beside = self._state.with_suffix(".tmp")
        beside.write_text(json.dumps({"mark": self._mark, "final": final}))
        beside.replace(self._state)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Whatever a tracker does, the others and the run go on."""
        try:
            work()
        except Exception as error:
            self._sink = None
            self.failed = " ".join(f"{type(error).__name__}: {error}".split())[:300]

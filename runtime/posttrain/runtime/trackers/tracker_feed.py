"""Sends the metrics of one step to one tracker, exactly once across interruptions.

Every sent point is recorded. Only the point in flight when the process is killed can be sent twice: trackers
receive the last sent step, and drop the duplicate where they can (TensorBoard purges it, MLflow and W&B
recognize it). After a failure, the feed pauses until the step ends, and then retries once.

Two clients of one home can follow the same step. A lock lets one of them feed a tracker; the other takes
over when the first ends.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.store.file_locks import Lock, try_lock
from posttrain.runtime.trackers.metrics_reader import MetricPoint, MetricsReader
from posttrain.runtime.trackers.tracker_protocol import MetricSink, TrackedStep
from posttrain.runtime.user_errors import foreign_traceback

OpenSink = Callable[[TrackedStep], MetricSink]
_NOTHING_SENT = (-1, 0)


class TrackerFeed:
    def __init__(self, name: str, tracked: TrackedStep, open_sink: OpenSink, state: Path) -> None:
        self.name = name
        self._tracked = tracked
        self._open = open_sink
        self._state_path = state
        self._lock: Lock | None = None
        self._load_state()
        self._sink: MetricSink | None = None
        self._pending: list[MetricPoint] = []  # points that the tracker has not accepted yet
        self.error = ""

    def send(self, points: Sequence[MetricPoint]) -> None:
        """Send the points that were not sent before."""
        self._pending += points
        if self._pending and not self.error and self._try_lock():
            self._catch_errors(self._send_pending)

    def close(self, reader: MetricsReader) -> None:
        """Send the remaining points, and mark the step in the tracker as finished or not."""
        self.error = ""
        if self._try_lock():
            self._catch_errors(lambda: self._send_final(reader))
        self._sink = None
        self.release()

    def remove_leftovers(self) -> None:
        """Remove the files of a client that was killed while it recorded what it had sent."""
        if self._try_lock():
            for path in self._state_path.parent.glob(f".{self._state_path.name}.*.tmp"):
                path.unlink(missing_ok=True)
            self.release()

    def release(self) -> None:
        """Let another client feed the tracker."""
        if self._lock is not None:
            self._lock.discard()
            self._lock = None

    def _try_lock(self) -> bool:
        if self._lock is None:
            self._lock = try_lock(self._state_path.with_suffix(".lock"))
            if self._lock is not None:
                self._load_state()  # the client that had the lock has changed it
        return self._lock is not None

    def _load_state(self) -> None:
        known: Any = atomic_io.read_json(self._state_path) or {}
        self._last_sent: tuple[int, int] = tuple(known.get("last_sent", _NOTHING_SENT))
        self.finalized: bool = known.get("final", False)

    def _send_final(self, reader: MetricsReader) -> None:
        finished = reader.finished
        self._send_pending()
        if finished and not self.finalized:
            step, values, at = reader.summary_point()
            if values:
                self._ensure_sink().log_metrics(step, values, at)
        if self._sink is not None:
            self._sink.close(finished=finished)
        if finished:
            self._save_state(final=True)

    def _send_pending(self) -> None:
        while self._pending:
            point = self._pending[0]
            if point.sequence > self._last_sent:
                self._ensure_sink().log_metrics(point.sequence[0], point.values, point.at)
                self._last_sent = point.sequence
                self._save_state()
            self._pending.pop(0)

    def _ensure_sink(self) -> MetricSink:
        if self._sink is None:
            self._sink = self._open(replace(self._tracked, last_sent_step=self._last_sent[0]))
        return self._sink

    def _save_state(self, *, final: bool = False) -> None:
        self.finalized = final
        state = {"last_sent": self._last_sent, "final": final}
        atomic_io.write_json(self._state_path, state, sync=False)

    def _catch_errors(self, work: Callable[[], None]) -> None:
        """Record any error of a tracker, so that other trackers and the run continue."""
        try:
            work()
        except Exception as error:
            self._sink = None
            # In the log of the trackers, and without our own frames.
            sys.stderr.write(f"{self.name}:\n{foreign_traceback(error)}\n")
            self.error = " ".join(f"{type(error).__name__}: {error}".split())[:300]

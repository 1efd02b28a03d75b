"""The TensorBoard tracker: event files under .recipe/tracking/tensorboard, one folder per step."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.trackers.tracker_protocol import MetricSink, TrackedStep
from posttrain.spec.extension import Tracker

EXTENSION = Tracker(
    name="tensorboard",
    summary="TensorBoard event files. Open them with `tensorboard --logdir .recipe/tracking/tensorboard`.",
    module="tensorboard",
    extra="train",
)


def run(tracked: TrackedStep) -> MetricSink:
    return _Sink(tracked)


class _Sink:
    def __init__(self, tracked: TrackedStep) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = tracked.folder / tracked.recipe / tracked.name
        self._writer = EventFileWriter(str(folder))
        # Generated classes without type information.
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2").Summary
        if tracked.last_sent_step >= 0:  # a START event purges later points
            log: Any = import_module("tensorboard.compat.proto.event_pb2").SessionLog
            begin = self._event(step=tracked.last_sent_step + 1, session_log=log(status=log.START))
            self._writer.add_event(begin)

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        metrics = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        event = self._event(wall_time=at, step=step, summary=self._summary(value=metrics))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self, *, finished: bool) -> None:
        self._writer.close()

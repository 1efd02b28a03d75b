"""The Trackio tracker: a database in TRACKIO_DIR, or under .recipe/tracking/trackio."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.trackers.tracker_protocol import MetricSink, TrackedStep, flatten_params
from posttrain.spec.extension import Tracker

EXTENSION = Tracker(
    name="trackio",
    summary="Trackio. Open it with `TRACKIO_DIR=.recipe/tracking/trackio trackio show`.",
    module="trackio",
    extra="trackers",
    variables=("TRACKIO_*", "HF_TOKEN"),
)


def run(tracked: TrackedStep) -> MetricSink:
    return _Sink(tracked)


class _Sink:
    def __init__(self, tracked: TrackedStep) -> None:
        tracked.folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("TRACKIO_DIR", str(tracked.folder))
        self._run: Any = import_module("trackio").init(
            project=tracked.recipe,
            name=tracked.name,
            group=tracked.run,
            config=flatten_params(tracked.params),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        self._run.log(dict(values), step=step)

    def close(self, *, finished: bool) -> None:
        self._run.finish()

"""The Weights & Biases tracker, configured by WANDB_API_KEY, WANDB_MODE and its other variables."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.trackers.tracker_protocol import MetricSink, TrackedStep, flatten_params
from posttrain.spec.extension import Tracker

EXTENSION = Tracker(
    name="wandb",
    summary="Weights & Biases. With WANDB_MODE=offline it writes files for a later `wandb sync`.",
    module="wandb",
    extra="trackers",
    variables=("WANDB_*", "NETRC"),
)
_INIT_TIMEOUT = 30  # seconds to wait for the service


def run(tracked: TrackedStep) -> MetricSink:
    return _Sink(tracked)


class _Sink:
    def __init__(self, tracked: TrackedStep) -> None:
        wandb: Any = import_module("wandb")
        tracked.folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", tracked.recipe),
            name=tracked.step,
            group=tracked.run,
            job_type=tracked.kind,
            # A step keeps its id across runs, so that W&B resumes it.
            id=tracked.key[:32],
            resume="allow",
            dir=str(tracked.folder),
            config=flatten_params(tracked.params),
            reinit="create_new",
            settings=wandb.Settings(
                console="off", silent=True, init_timeout=_INIT_TIMEOUT, x_disable_stats=True, disable_git=True
            ),
        )

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        self._run.log({**values, "_timestamp": at}, step=step)

    def close(self, *, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)

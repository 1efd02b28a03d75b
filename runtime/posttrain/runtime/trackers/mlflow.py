"""MLflow: the server that MLFLOW_TRACKING_URI names, or a database under .recipe/tracking/mlflow."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.trackers.tracker_protocol import MetricSink, TrackedStep, flatten_params
from posttrain.spec.extension import Tracker

EXTENSION = Tracker(
    name="mlflow",
    summary="MLflow: the server of MLFLOW_TRACKING_URI, or a database under .recipe/tracking/mlflow.",
    module="mlflow",
    extra="trackers",
)
_KEY_TAG = "posttrain.key"
_MAX_PARAM = 250  # characters of a parameter that a server takes for certain
# A server that does not answer is given up on after seconds, not minutes.
_TIMEOUTS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


def run(topic: TrackedStep) -> MetricSink:
    return _Sink(topic)


class _Sink:
    def __init__(self, topic: TrackedStep) -> None:
        for name, value in _TIMEOUTS.items():
            os.environ.setdefault(name, value)
        self._mlflow: Any = import_module("mlflow")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=_tracking_uri(topic))
        experiment = _experiment_id(self._client, topic.recipe)
        found = self._client.search_runs([experiment], filter_string=f"tags.`{_KEY_TAG}` = '{topic.key}'")
        self._run_id: str = found[0].info.run_id if found else self._create_run(experiment, topic)
        self._client.update_run(self._run_id, status="RUNNING")

    def _create_run(self, experiment: str, topic: TrackedStep) -> str:
        tags = {_KEY_TAG: topic.key, "posttrain.run": topic.run, "posttrain.kind": topic.kind}
        made = self._client.create_run(experiment, run_name=topic.step, tags=tags)
        param = self._mlflow.entities.Param
        params = [
            param(name, str(value)[:_MAX_PARAM]) for name, value in flatten_params(topic.params).items()
        ]
        self._client.log_batch(made.info.run_id, params=params[:100])
        return made.info.run_id

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        metric = self._mlflow.entities.Metric
        figures = [metric(name, value, int(at * 1000), step) for name, value in values.items()]
        self._client.log_batch(self._run_id, metrics=figures)

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run_id, "FINISHED" if finished else "KILLED")


def _tracking_uri(topic: TrackedStep) -> str:
    given = os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        return given
    topic.folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{topic.folder / 'mlflow.db'}"


def _experiment_id(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return found.experiment_id if found is not None else client.create_experiment(name)

"""The MLflow tracker: the server at MLFLOW_TRACKING_URI, or a database under .recipe/tracking/mlflow."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.trackers.tracker_protocol import MetricSink, TrackedStep, flatten_params
from posttrain.spec.extension import Tracker

EXTENSION = Tracker(
    name="mlflow",
    summary="MLflow: the server at MLFLOW_TRACKING_URI, or a database under .recipe/tracking/mlflow.",
    module="mlflow",
    extra="trackers",
    variables=("MLFLOW_*", "DATABRICKS_*"),
)
_KEY_TAG = "posttrain.key"
_MAX_PARAM = 250  # characters of a parameter that every server accepts
# Time out after seconds, not minutes.
_TIMEOUTS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


def run(tracked: TrackedStep) -> MetricSink:
    return _Sink(tracked)


class _Sink:
    def __init__(self, tracked: TrackedStep) -> None:
        for name, value in _TIMEOUTS.items():
            os.environ.setdefault(name, value)
        self._mlflow: Any = import_module("mlflow")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=_tracking_uri(tracked))
        experiment = _experiment_id(self._client, tracked.recipe)
        found = self._client.search_runs([experiment], filter_string=f"tags.`{_KEY_TAG}` = '{tracked.key}'")
        self._run_id: str = found[0].info.run_id if found else self._create_run(experiment, tracked)
        self._client.update_run(self._run_id, status="RUNNING")

    def _create_run(self, experiment: str, tracked: TrackedStep) -> str:
        tags = {_KEY_TAG: tracked.key, "posttrain.run": tracked.run, "posttrain.kind": tracked.kind}
        created = self._client.create_run(experiment, run_name=tracked.step, tags=tags)
        param = self._mlflow.entities.Param
        params = [
            param(name, str(value)[:_MAX_PARAM]) for name, value in flatten_params(tracked.params).items()
        ]
        self._client.log_batch(created.info.run_id, params=params[:100])
        return created.info.run_id

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        metric = self._mlflow.entities.Metric
        metrics = [metric(name, value, int(at * 1000), step) for name, value in values.items()]
        self._client.log_batch(self._run_id, metrics=metrics)

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run_id, "FINISHED" if finished else "KILLED")


def _tracking_uri(tracked: TrackedStep) -> str:
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri:
        return uri
    tracked.folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{tracked.folder / 'mlflow.db'}"


def _experiment_id(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return found.experiment_id if found is not None else client.create_experiment(name)

"""MLflow: the server that MLFLOW_TRACKING_URI names, or a database under .recipe/tracking/mlflow."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.trackers.topic import Sink, Topic, flat
from posttrain.spec.extension import Tracker

EXTENSION = Tracker(
    name="mlflow",
    summary="MLflow: the server of MLFLOW_TRACKING_URI, or a database under .recipe/tracking/mlflow.",
    module="mlflow",
    extra="trackers",
)
_KEY = "posttrain.key"
_LONGEST = 250  # characters of a parameter that a server takes for certain
# A server that does not answer is given up on after seconds, not minutes.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


def run(topic: Topic) -> Sink:
    return _Sink(topic)


class _Sink:
    def __init__(self, topic: Topic) -> None:
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        self._mlflow: Any = import_module("mlflow")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=_address(topic))
        experiment = _experiment(self._client, topic.recipe)
        found = self._client.search_runs([experiment], filter_string=f"tags.`{_KEY}` = '{topic.key}'")
        self._id: str = found[0].info.run_id if found else self._begin(experiment, topic)
        self._client.update_run(self._id, status="RUNNING")

    def _begin(self, experiment: str, topic: Topic) -> str:
        tags = {_KEY: topic.key, "posttrain.run": topic.run, "posttrain.kind": topic.kind}
        made = self._client.create_run(experiment, run_name=topic.step, tags=tags)
        param = self._mlflow.entities.Param
        params = [param(name, str(value)[:_LONGEST]) for name, value in flat(topic.params).items()]
        self._client.log_batch(made.info.run_id, params=params[:100])
        return made.info.run_id

    def point(self, step: int, values: Mapping[str, float], at: float) -> None:
        metric = self._mlflow.entities.Metric
        figures = [metric(name, value, int(at * 1000), step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=figures)

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


def _address(topic: Topic) -> str:
    given = os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        return given
    topic.folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{topic.folder / 'mlflow.db'}"


def _experiment(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return found.experiment_id if found is not None else client.create_experiment(name)

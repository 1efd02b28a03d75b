"""Each tracker with its real package: an interrupted and resumed run is one run there, without duplicate
points. The MLflow server is a real, local one."""

import json
import os
import socket
import sqlite3
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.recipe_command import wait_until
from tests.runtime.trackers.fake_training_step import STEP, FakeTrainingRun

from posttrain.runtime.trackers import tracker_process
from posttrain.runtime.trackers.tracker_launcher import TrackerLauncher

pytestmark = pytest.mark.slow
LOSSES = [(step, 1.0 / step) for step in (1, 2, 3, 4)]


def run_interrupted(tmp_path: Path, tracker: str, **environment: str) -> tuple[FakeTrainingRun, list[str]]:
    """A stage that is interrupted after two steps and finishes in a second run, with real processes."""
    found = find_spec(tracker) if tracker else None
    require_service(tracker, found, f"pip install {tracker}", apart=True)
    training_run = FakeTrainingRun(tmp_path, tracker)
    notes: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with TrackerLauncher(
            training_run.plan, training_run.home, training_run.run, notes.append, lambda: False
        ):
            training_run.attempt(1, 2, 3)
        training_run.restart()
        with TrackerLauncher(
            training_run.plan, training_run.home, training_run.run, notes.append, lambda: False
        ):
            training_run.attempt(3, 4, resumed=2)
            training_run.finish()
        training_run.restart()
        with TrackerLauncher(
            training_run.plan, training_run.home, training_run.run, notes.append, lambda: False
        ) as third:
            assert third._process is None, "everything has been sent"
    return training_run, notes


def test_tensorboard_shows_every_point_once(tmp_path: Path) -> None:
    training_run, notes = run_interrupted(tmp_path, "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (training_run.home.root / "tracking" / "tensorboard" / "sums").iterdir()
    assert folder.name == f"sft-{STEP.key[:8]}"
    shown = EventAccumulator(str(folder)).Reload()
    assert [event.step for event in shown.Scalars("loss")] == [1, 2, 3, 4]
    assert [event.value for event in shown.Scalars("reward/format")] == [0.5] * 4
    assert [event.step for event in shown.Scalars("eval/accuracy")] == [4]
    assert notes == []


def test_wandb_keeps_one_run_offline(tmp_path: Path) -> None:
    training_run, notes = run_interrupted(tmp_path, "wandb", WANDB_MODE="offline")
    from wandb.proto.wandb_internal_pb2 import Record

    history: list[dict[str, str]] = []
    ids: set[str] = set()
    for file in sorted((training_run.home.root / "tracking" / "wandb").rglob("*.wandb")):
        for data in records(file.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            if record.HasField("history"):
                items = {i.key or ".".join(i.nested_key): i.value_json for i in record.history.item}
                history.append(items)
            elif record.HasField("run"):
                ids.add(record.run.run_id)
    assert ids == {STEP.key[:32]}
    points = [(int(items["_step"]), float(items["loss"])) for items in history if "loss" in items]
    assert points == LOSSES
    assert [float(i["eval/accuracy"]) for i in history if "eval/accuracy" in i] == [0.75]
    assert notes == []


def records(data: bytes) -> Iterator[bytes]:
    """The records of a W&B file, which uses LevelDB's log format with blocks of 32 KiB."""
    place, begun = 7, b""  # after the format name
    while place + 7 <= len(data):
        length, kind = struct.unpack_from("<HB", data, place + 4)
        if (1 << 15) - place % (1 << 15) < 7 or kind == 0:  # the rest of the block is padding
            place += (1 << 15) - place % (1 << 15)
            continue
        begun += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a full record, or the last part of one
            yield begun
            begun = b""


def test_trackio_keeps_one_run(tmp_path: Path) -> None:
    training_run, notes = run_interrupted(tmp_path, "trackio")
    database = sqlite3.connect(training_run.home.root / "tracking" / "trackio" / "sums.db")
    points = database.execute("select run_name, step, metrics from metrics order by id").fetchall()
    assert {name for name, _, _ in points} == {f"sft-{STEP.key[:8]}"}
    rows = [(step, json.loads(values)) for _, step, values in points]
    assert [(step, values["loss"]) for step, values in rows if "loss" in values] == LOSSES
    assert [(step, v["eval/accuracy"]) for step, v in rows if "eval/accuracy" in v] == [(4, 0.75)]
    assert notes == []


def check_mlflow(address: str) -> None:
    """Check the run of the stage in MLflow."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name("sums")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "sft"
    assert run.info.status == "FINISHED"
    assert run.data.params["params.max_steps"] == "4"
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [(point.step, point.value) for point in losses] == LOSSES
    assert run.data.metrics["eval/accuracy"] == 0.75


def test_mlflow_keeps_one_run_in_its_own_database(tmp_path: Path) -> None:
    training_run, notes = run_interrupted(tmp_path, "mlflow")
    assert notes == []
    check_mlflow(f"sqlite:///{training_run.home.root / 'tracking' / 'mlflow' / 'mlflow.db'}")


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[str]:
    require_service("mlflow", find_spec("mlflow"), "pip install mlflow", apart=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    place = [f"--backend-store-uri=sqlite:///{tmp_path}/server.db", f"--default-artifact-root={tmp_path}/art"]
    command = [sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={port}", "--workers=1"]
    with (tmp_path / "server.log").open("ab") as log:
        server = subprocess.Popen([*command, *place], stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: responds_ok(f"{address}/health"), "the server of MLflow", seconds=300)
        yield address
    finally:
        os.killpg(server.pid, 9)
        server.wait()


def responds_ok(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_mlflow_keeps_one_run_on_a_server(tmp_path: Path, mlflow_server: str) -> None:
    _, notes = run_interrupted(tmp_path, "mlflow", MLFLOW_TRACKING_URI=mlflow_server)
    assert notes == []
    check_mlflow(mlflow_server)


def test_a_server_that_is_gone_is_told_and_harms_nothing(tmp_path: Path) -> None:
    require_service("mlflow", find_spec("mlflow"), "pip install mlflow", apart=True)
    training_run = FakeTrainingRun(tmp_path, "mlflow", "tensorboard")
    notes: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with TrackerLauncher(
            training_run.plan, training_run.home, training_run.run, notes.append, lambda: False
        ):
            training_run.attempt(1, 2)
            training_run.finish()
    assert any(note.startswith("tracking: sft: mlflow did not receive all metrics") for note in notes)
    assert not any("tensorboard" in note for note in notes)
    sent = json.loads(tracker_process.feed_state_path(training_run.home, STEP.key, "tensorboard").read_text())
    assert sent == {"last_sent": [2, 1], "final": True}

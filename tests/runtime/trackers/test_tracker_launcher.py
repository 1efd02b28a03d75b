"""The messages of a run about its trackers, and the metrics that they receive."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.recipe_command import TINY_RECIPE, find_processes, run_command, start_command, wait_until

from posttrain.runtime.store.home import Home
from posttrain.runtime.trackers import tensorboard, tracker_launcher
from posttrain.runtime.trackers.tracker_feed import TrackerFeed
from posttrain.runtime.trackers.tracker_launcher import installed_trackers
from posttrain.runtime.trackers.tracker_process import feed_state_path
from posttrain.runtime.trackers.tracker_protocol import TrackedStep


def test_packages_that_are_missing_are_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"tensorboard"}
    monkeypatch.setattr(tracker_launcher, "find_spec", lambda module: module if module in there else None)
    notes: list[str] = []
    assert installed_trackers(["tensorboard", "wandb"], notes.append) == ["tensorboard"]
    assert notes == [
        (
            "tracking: wandb is not installed and receives no metrics; install it with pip install"
            " 'posttrain[trackers]'"
        )
    ]


def losses(home: Path, stage: str) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = (home / "tracking" / "tensorboard" / "tiny").glob(f"{stage}-*")
    return [event.step for event in EventAccumulator(str(folder)).Reload().Scalars("loss")]


@pytest.mark.slow
def test_a_run_that_is_killed_and_goes_on_is_tracked_as_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    longer = ("--set", "stages.grpo.params.max_steps=45")
    client = start_command("run", TINY_RECIPE, "--home", home, *longer, log=tmp_path / "log")
    sent = home / "tracking" / "sent"
    wait_until(lambda: sent.is_dir() and len(list(sent.glob("*.json"))) >= 3, "figures of grpo", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: not find_processes(home), "the end of all processes")
    again = run_command("run", TINY_RECIPE, "--home", home, *longer)
    assert again.returncode == 0, again.stdout + again.stderr
    assert losses(home, "sft") == list(range(1, 13))
    assert losses(home, "grpo") == list(range(1, 46))
    states = [json.loads(path.read_text())["final"] for path in sent.iterdir()]
    assert states == [True] * 4
    assert "tracking" not in again.stdout


def test_leftovers_of_a_client_that_was_killed_while_it_recorded_a_point_are_removed(tmp_path: Path) -> None:
    state = feed_state_path(Home(tmp_path), "0123", "tensorboard")
    state.parent.mkdir(parents=True)
    state.write_text('{"final": true, "last_sent": [3, 1]}')
    state.with_suffix(".lock").touch()
    state.with_name(f".{state.name}.4711.tmp").write_text('{"final": fal')
    tracked = TrackedStep(
        recipe="r", run="1", step="eval", key="0123", kind="eval", params={}, folder=tmp_path / "tensorboard"
    )
    TrackerFeed("tensorboard", tracked, tensorboard.run, state).remove_leftovers()
    assert list(state.parent.iterdir()) == [state]


@pytest.mark.slow
def test_trackers_are_no_part_of_a_key(tmp_path: Path) -> None:
    assert run_command("run", TINY_RECIPE, "--home", tmp_path).returncode == 0
    again = run_command("run", TINY_RECIPE, "--home", tmp_path, "--set", "tracking=[]")
    assert "nothing to run" in again.stdout

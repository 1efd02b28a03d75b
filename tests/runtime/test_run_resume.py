"""A killed run resumes, and ends with bitwise identical weights."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.recipe_command import (
    TINY_RECIPE,
    file_digests,
    find_processes,
    product_path,
    run_command,
    start_command,
    wait_until,
)
from tests.runtime.process_tree import command_line, descendants

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an undisturbed run."""
    home = tmp_path_factory.mktemp("undisturbed")
    done = run_command("run", TINY_RECIPE, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


def count_events(home: Path, stage: str, kind: str) -> int:
    """The events of a kind of a running stage."""
    for step in (home / "work").glob("*/record/step.json"):
        try:
            if json.loads(step.read_text())["id"] == stage:
                return (step.parent / "events.jsonl").read_text().count(f'"kind": "{kind}"')
        except FileNotFoundError:  # not started yet, or just moved to the store
            continue
    return 0


def count_checkpoints(home: Path, stage: str) -> int:
    """The complete checkpoints of a running stage."""
    return count_events(home, stage, "checkpoint")


def kill_while_training(home: Path, stage: str, after: int) -> bool:
    """Kill a run after a checkpoint of a stage. Return whether the stage was still training."""
    client = start_command("run", TINY_RECIPE, "--home", home, log=home.with_suffix(".log"))
    wait_until(lambda: count_checkpoints(home, stage) >= after, f"checkpoint {after} of {stage}", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: not find_processes(home), "the end of all workers")
    return run_command("path", stage, "--home", home).returncode == 1


# The first epoch of GRPO ends at step 8, so the third checkpoint is in the second epoch.
@pytest.mark.parametrize(("stage", "after"), [("sft", 1), ("grpo", 1), ("grpo", 3)])
def test_a_run_killed_while_it_trains_ends_with_the_same_weights(
    stage: str, after: int, undisturbed: Path, tmp_path: Path
) -> None:
    # The steps after the checkpoint take a fraction of a second: on a busy machine they can finish first.
    homes = (tmp_path / f"home{number}" for number in range(5))
    home = next((home for home in homes if kill_while_training(home, stage, after)), None)
    assert home is not None, f"{stage} had always finished before it was killed"
    again = run_command("run", TINY_RECIPE, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    events = (product_path(home, stage).parent / "record" / "events.jsonl").read_text().splitlines()
    assert any(json.loads(line)["kind"] == "resumed" for line in events)
    for name in ("sft", "grpo", "export", "after"):
        assert file_digests(product_path(home, name)) == file_digests(product_path(undisturbed, name)), name


def test_steps_that_finished_are_not_run_again(undisturbed: Path) -> None:
    again = run_command("run", TINY_RECIPE, "--home", undisturbed)
    assert again.returncode == 0
    assert "nothing to run" in again.stdout
    assert "started" not in again.stdout


def test_a_changed_parameter_runs_its_stage_and_what_follows(undisturbed: Path) -> None:
    planned = run_command(
        "plan", TINY_RECIPE, "--home", undisturbed, "--set", "stages.grpo.params.learning_rate=2e-3"
    )
    states = {line.split()[0]: line.split()[2] for line in planned.stdout.splitlines()[1:-1]}
    ran = [stage for stage, state in states.items() if state == "run"]
    assert ran == ["grpo", "after", "ship", "export"]
    assert "params.learning_rate: 0.001 -> 0.002" in planned.stdout


def test_an_interrupt_keeps_what_is_under_way(undisturbed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    client = start_command("run", TINY_RECIPE, "--home", home, log=tmp_path / "log")
    wait_until(lambda: count_checkpoints(home, "grpo") >= 1, "a checkpoint of grpo", client)
    os.kill(client.pid, signal.SIGINT)
    assert client.wait(timeout=240) == 130, (tmp_path / "log").read_text()
    assert "stopped" in (tmp_path / "log").read_text()
    assert not find_processes(home)
    again = run_command("run", TINY_RECIPE, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert file_digests(product_path(home, "grpo")) == file_digests(product_path(undisturbed, "grpo"))


def test_an_interrupt_ends_a_training_that_loads(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    client = start_command("run", TINY_RECIPE, "--home", home, log=log)
    wait_until(lambda: count_events(home, "sft", "started") == 1, "the start of sft", client)
    worker = descendants(client.pid)[-1]
    os.kill(worker, signal.SIGSTOP)  # it gets the request before it has loaded, however busy the machine is
    os.kill(client.pid, signal.SIGINT)
    wait_until(lambda: "stopping" in log.read_text(), "the stop request", client)
    time.sleep(0.5)
    os.kill(worker, signal.SIGCONT)
    assert client.wait(timeout=240) == 130, log.read_text()
    assert count_events(home, "sft", "metrics") == count_checkpoints(home, "sft") == 0


def test_killed_forkserver_is_restarted(undisturbed: Path, tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    again = ("--set", "stages.sft.retry={attempts: 2, wait_seconds: 0}")
    client = start_command("run", TINY_RECIPE, "--home", home, *again, log=log)
    wait_until(lambda: count_checkpoints(home, "sft") >= 1, "a checkpoint", client)
    (forkserver,) = [
        pid for pid in descendants(client.pid) if b"posttrain.runtime.forkserver" in command_line(pid)
    ][:1]
    os.kill(forkserver, signal.SIGKILL)
    assert client.wait(timeout=240) == 0, log.read_text()
    assert "retrying in" in log.read_text()
    assert file_digests(product_path(home, "grpo")) == file_digests(product_path(undisturbed, "grpo"))

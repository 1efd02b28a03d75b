"""A run that is killed goes on where it was, and ends with the same weights, bit for bit."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.recipe_command import TINY, begin, call, digests, product, wait_until, workers_of
from tests.runtime.processes import command_of, processes_below

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a run that nothing happened to."""
    home = tmp_path_factory.mktemp("undisturbed")
    done = call("run", TINY, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


def checkpoints(home: Path, stage: str) -> int:
    """Complete checkpoints that a stage under way has written, by its events."""
    for step in (home / "work").glob("*/record/step.json"):
        try:
            if json.loads(step.read_text())["id"] == stage:
                return (step.parent / "events.jsonl").read_text().count('"kind": "checkpoint"')
        except FileNotFoundError:  # not begun yet, or just moved into the store
            continue
    return 0


# The rows of GRPO's data are used up at its eighth step: the third checkpoint lies in the second epoch.
@pytest.mark.parametrize(("stage", "after"), [("sft", 1), ("grpo", 1), ("grpo", 3)])
def test_a_run_killed_while_it_trains_ends_with_the_same_weights(
    stage: str, after: int, undisturbed: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    client = begin("run", TINY, "--home", home, log=tmp_path / "log")
    wait_until(lambda: checkpoints(home, stage) >= after, f"checkpoint {after} of {stage}", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: not workers_of(home), "the end of all workers")
    assert call("path", stage, "--home", home).returncode == 1, f"{stage} had finished before it was killed"

    again = call("run", TINY, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    events = (product(home, stage).parent / "record" / "events.jsonl").read_text().splitlines()
    assert any(json.loads(line)["kind"] == "resumed" for line in events)
    for name in ("sft", "grpo", "export", "after"):
        assert digests(product(home, name)) == digests(product(undisturbed, name)), name


def test_steps_that_finished_are_not_run_again(undisturbed: Path) -> None:
    again = call("run", TINY, "--home", undisturbed)
    assert again.returncode == 0
    assert "nothing to run" in again.stdout
    assert "started" not in again.stdout


def test_a_changed_parameter_runs_its_stage_and_what_follows(undisturbed: Path) -> None:
    planned = call("plan", TINY, "--home", undisturbed, "--set", "stages.grpo.params.learning_rate=2e-3")
    states = {line.split()[0]: line.split()[2] for line in planned.stdout.splitlines()[1:-1]}
    ran = [stage for stage, state in states.items() if state == "run"]
    assert ran == ["grpo", "after", "ship", "export"]
    assert "params.learning_rate: 0.001 -> 0.002" in planned.stdout


def test_an_interrupt_keeps_what_is_under_way(undisturbed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    client = begin("run", TINY, "--home", home, log=tmp_path / "log")
    wait_until(lambda: checkpoints(home, "grpo") >= 1, "a checkpoint of grpo", client)
    os.kill(client.pid, signal.SIGINT)
    assert client.wait(timeout=60) == 130
    assert "stopped" in (tmp_path / "log").read_text()
    assert not workers_of(home)
    again = call("run", TINY, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert digests(product(home, "grpo")) == digests(product(undisturbed, "grpo"))


def test_a_warm_process_that_is_killed_is_replaced(undisturbed: Path, tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    again = ("--set", "stages.sft.retry={attempts: 2, wait_seconds: 0}")
    client = begin("run", TINY, "--home", home, *again, log=log)
    wait_until(lambda: checkpoints(home, "sft") >= 1, "a checkpoint", client)
    (warm,) = [pid for pid in processes_below(client.pid) if b"runtime.warm" in command_of(pid)][:1]
    os.kill(warm, signal.SIGKILL)
    assert client.wait(timeout=240) == 0, log.read_text()
    assert "tried again" in log.read_text()
    assert digests(product(home, "grpo")) == digests(product(undisturbed, "grpo"))

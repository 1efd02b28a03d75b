"""Script stages: a user's program with declared inputs, none of whose processes outlives the run."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command, start_command, wait_until

RECIPE = """\
recipe: 1
name: programs
stages:
  count: {script: [sh, -c, "wc -w < words.txt > $OUT/count; echo $SEED > $OUT/seed"], files: [words.txt]}
  double:
    script: [sh, -c, "echo $(( 2 * $(cat $INPUT_NUMBER/count) )) > $OUT/count"]
    inputs: {number: count}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "words.txt").write_text("one two three\n")
    return tmp_path


def test_a_program_reads_its_inputs_and_writes_its_product(folder: Path) -> None:
    home = folder / "home"
    done = run_command("run", folder, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (product_path(home, "double") / "count").read_text().strip() == "6"
    (folder / "words.txt").write_text("one two three four\n")
    again = run_command("run", folder, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (product_path(home, "double") / "count").read_text().strip() == "8"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_that_a_program_started_outlives_the_run(folder: Path, how: signal.Signals) -> None:
    seconds = f"97{os.getpid() % 1000:03}"  # a command line that is unique to this test
    recipe = RECIPE + f'  nap: {{script: [sh, -c, "sleep {seconds}; echo late > $OUT/x"]}}\n'
    (folder / "recipe.yaml").write_text(recipe)
    client = start_command("run", folder, "--home", folder / "home", log=folder / "log")
    wait_until(lambda: is_sleeping(seconds), "the program", client)
    os.kill(client.pid, how)
    client.wait(timeout=60)
    wait_until(lambda: not is_sleeping(seconds), "the end of the program")


def test_a_program_that_survives_the_signal_to_all_processes_has_no_product(folder: Path) -> None:
    """A scheduler that cancels a job sends SIGTERM to the worker and to each process of its program."""
    recipe = RECIPE + '  cut: {script: [sh, -c, "kill -TERM $PPID; echo partial > $OUT/x"]}\n'
    (folder / "recipe.yaml").write_text(recipe)
    ended = run_command("run", folder, "--home", folder / "home")
    assert "cut     interrupted" in ended.stdout
    states = json.loads(run_command("status", "--home", folder / "home", "--format", "json").stdout)["steps"]
    assert {step["id"]: step["state"] for step in states}["cut"] == "interrupted"


def is_sleeping(seconds: str) -> bool:
    return (
        subprocess.run(
            ["pgrep", "-f", f"^sleep {seconds}"], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )

"""Commands that only read and print end without the teardown of the interpreter: nothing may be lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.recipe_command import RECIPE_COMMAND, ROOT

from posttrain.cli.main import main

QUICKSTART = str(ROOT / "recipes" / "quickstart")


def test_the_output_in_a_pipe_is_complete() -> None:
    command = [*RECIPE_COMMAND, "plan", str(ROOT / "recipes" / "data-factory"), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout) > 100_000, "more than a pipe holds"
    assert json.loads(done.stdout)["format"] == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("validate", QUICKSTART), 0),
        (("validate", "/nonexistent"), 2),
        (("validate", "--no-such-option"), 2),
        (("plan", QUICKSTART, "--home", "/nonexistent", "--exit-code"), 2),
        (("explain", "no-such-topic"), 2),
    ],
)
def test_the_exit_status_is_that_of_the_command(arguments: tuple[str, ...], status: int) -> None:
    expected = CliRunner().invoke(main, arguments).exit_code
    assert expected == status
    assert (
        subprocess.run([*RECIPE_COMMAND, *arguments], capture_output=True, check=False).returncode == status
    )


def test_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*RECIPE_COMMAND, "validate", QUICKSTART], stdout=full, check=False)
    assert done.returncode != 0


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_no_thread_and_no_process_is_left(command: str) -> None:
    program = f"""
import os, threading
from click.testing import CliRunner
from posttrain.cli.main import main
result = CliRunner().invoke(main, [{command!r}, {str(ROOT / "recipes" / "data-factory")!r}])
assert result.exit_code == 0, result.output
assert threading.active_count() == 1
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
else:
    raise AssertionError("a child process is left")
"""
    subprocess.run([sys.executable, "-c", program], check=True)

"""Errors of user code: the message shows the user's lines, the row and the values, and none of our frames."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import RECIPE_COMMAND, run_command
from tests.runtime.environments.test_python_environment import world

from posttrain.runtime.environments import episode_runner
from posttrain.runtime.errors import StepError
from posttrain.runtime.hosting.host_client import HostClient
from posttrain.runtime.user_errors import FirstErrors, describe_values, extension_traceback

REWARD = """\
recipe: 1
name: broken
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2}
    tokenizer: {init: characters}
datasets:
  sums: {from: {arithmetic: {digits: 2, count: 20}}}
rewards:
  it:
    reads: {completion: text, answer: text}
    nodes:
      node: NODE
    returns: node
stages:
  check:
    eval: base
    data: sums
    reward: it
    metrics: {m: {mean: node}}
    sampling: {max_tokens: 2}
"""
PYTHON = "{python: {call: grade.py:score, with: {text: completion, answer: answer}, low: 0, high: 1}}"
GRADE = """\
import json


def parse(text):
    return json.loads("{" + text)


def score(text, answer):
    return parse(answer)["x"]
"""
EXTENSION = """\
from posttrain.spec.extension import Operand, RewardOp

EXTENSION = RewardOp(
    name="halve",
    summary="Halves a text.",
    operands={"of": Operand(type="text", description="The text.")},
    yields="number",
    shorthand="of",
)


def divide(text):
    return 1 / (len(text) - len(text))


def run(params, operands, batch):
    return [divide(text) for text in operands["of"]]
"""
OUR_FILES = ("host_server.py", "host_client.py", "user_function_pool.py", "nodes.py", "posttrain/runtime")


def _without_frames_of_ours(text: str) -> bool:
    frames = [line for line in text.splitlines() if line.lstrip().startswith('File "')]
    return bool(frames) and not any(name in line for name in OUR_FILES for line in frames)


def test_a_run_shows_where_a_reward_function_failed(tmp_path: Path):
    (tmp_path / "recipe.yaml").write_text(REWARD.replace("NODE", PYTHON))
    (tmp_path / "grade.py").write_text(GRADE)
    home = tmp_path / "home"
    done = run_command("run", tmp_path, "--home", home)
    assert done.returncode == 1
    logs = run_command("logs", "check", "--home", home)
    for shown in (done.stdout, logs.stdout):
        assert 'File "grade.py", line 9, in score' in shown
        assert 'File "grade.py", line 5, in parse' in shown
        assert 'return json.loads("{" + text)' in shown
        assert "JSONDecodeError" in shown
        assert "row 0:" in shown
        assert "  answer = '" in shown
        assert _without_frames_of_ours(shown)
    assert "on_error: abstain" in done.stdout


def test_the_log_shows_the_first_errors_of_rows_that_abstain(tmp_path: Path):
    node = PYTHON.replace("high: 1}", "high: 1, on_error: abstain}")
    (tmp_path / "recipe.yaml").write_text(REWARD.replace("NODE", node))
    (tmp_path / "grade.py").write_text(GRADE)
    run_command("run", tmp_path, "--home", tmp_path / "home")
    shown = run_command("logs", "check", "--home", tmp_path / "home").stdout
    assert shown.count('File "grade.py", line 9, in score') == 3
    assert _without_frames_of_ours(shown)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"completion": "a", "answer": "1"}\n{"completion": "b", "answer": "2"}\n')
    return file


def test_a_file_that_does_not_load_is_shown(tmp_path: Path, rows: Path):
    (tmp_path / "recipe.yaml").write_text(REWARD.replace("NODE", PYTHON))
    (tmp_path / "grade.py").write_text("def helper():\n    raise OSError('no table')\n\nhelper()\n")
    done = run_command("reward", tmp_path, "it", "--rows", rows)
    assert done.returncode == 1
    assert 'File "grade.py", line 4, in <module>' in done.stderr
    assert 'File "grade.py", line 2, in helper' in done.stderr
    assert _without_frames_of_ours(done.stderr)


def test_an_op_of_an_extension_is_shown_like_the_users_code(tmp_path: Path, rows: Path):
    packages = tmp_path / "packages"
    (packages / "halving-1.0.dist-info").mkdir(parents=True)
    (packages / "halving-1.0.dist-info" / "METADATA").write_text("Name: halving\nVersion: 1.0\n")
    (packages / "halving-1.0.dist-info" / "entry_points.txt").write_text(
        "[posttrain.reward]\nhalve = halving_op\n"
    )
    (packages / "halving_op.py").write_text(EXTENSION)
    (tmp_path / "recipe.yaml").write_text(REWARD.replace("NODE", "{halve: completion}"))
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [*RECIPE_COMMAND, "reward", str(tmp_path), "it", "--rows", str(rows)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 1
    assert "the reward node `node`: ZeroDivisionError: division by zero" in done.stderr
    assert "halving_op.py" in done.stderr
    assert "return 1 / (len(text) - len(text))" in done.stderr
    assert _without_frames_of_ours(done.stderr)


def test_an_environment_shows_its_lines_and_the_row() -> None:
    with world("Moody") as here:
        plays = episode_runner.start_episodes(here, [{"name": "raises"}], seed=3)
        with pytest.raises(StepError) as raised:
            episode_runner.step_episodes(here, plays, ["raise"])
    details = raised.value.details
    assert 'File "fake_environments.py"' in details
    assert "  name = 'raises'" in details
    assert "  last turn = 'raise'" in details
    assert _without_frames_of_ours(details)


def test_long_values_are_cut():
    text = describe_values({"text": "x" * 5000, "short": 3})
    assert len(text) < 400
    assert "(5002 characters)" in text
    assert "short = 3" in text


def test_only_the_first_errors_are_printed(capsys: pytest.CaptureFixture[str]):
    errors = FirstErrors(limit=2)
    for number in range(5):
        errors.print(f"error {number}", "why")
    assert capsys.readouterr().err == "error 0\nwhy\nerror 1\nwhy\n"


def test_an_error_of_our_own_keeps_its_whole_traceback():
    with pytest.raises(KeyError) as raised:
        assert {}["x"]
    assert extension_traceback(raised.value) == ""


UNUSUAL = """\
import os

class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Opaque:
    def __getattr__(self, name):
        raise RuntimeError("no attributes")

def silent(text):
    raise Silent()

def opaque(text):
    return Opaque()

def deep(text):
    value = []
    for _ in range(100_000):
        value = [value]
    return value

def group(text):
    raise ExceptionGroup("several", [ValueError("first"), TypeError("second")])

def forked(text):
    if os.fork() == 0:
        raise ValueError("in the child")
    os.wait()
    return float(text)
"""


Call = Callable[[str, str], Mapping[str, Any] | None]


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """Calls a function of UNUSUAL in one process for each function."""
    (tmp_path / "unusual.py").write_text(UNUSUAL)
    clients: dict[str, HostClient] = {}

    def call(name: str, text: str) -> Mapping[str, Any] | None:
        if name not in clients:
            file, folders = tmp_path / "unusual.py", [str(tmp_path)]
            clients[name] = HostClient(sys.executable, "function", file, name, {}, folders, {})
            assert clients[name].wait_until_ready() == {"ready": True}
        return clients[name].request({"text": text}, 60.0)

    yield call
    for client in clients.values():
        client.stop()


@pytest.mark.parametrize(
    ("name", "error", "line"),
    [
        ("silent", "Silent, whose __str__ raises RuntimeError", 'File "unusual.py", line 12, in silent'),
        ("opaque", "RuntimeError: no attributes", 'File "unusual.py", line 9, in __getattr__'),
        ("deep", "the returned value is not JSON serializable: RecursionError", ""),
        ("group", "ExceptionGroup: several (2 sub-exceptions)", "ValueError: first"),
    ],
)
def test_an_unusual_error_does_not_end_the_process_of_the_function(
    call: Call, name: str, error: str, line: str
) -> None:
    for _ in range(2):
        response = call(name, "1")
        assert response is not None
        assert response["error"].startswith(error)
        assert line in response.get("traceback", "")


def test_a_fork_of_the_function_does_not_respond(call: Call) -> None:
    """Its response would be read as that of the next row."""
    assert [call("forked", text) for text in "123"] == [{"value": n, "reason": None} for n in (1.0, 2.0, 3.0)]

"""Stop requests to a run, with real processes and signals: what is deaf to them is killed, and resumes."""

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.recipe_command import RECIPE_COMMAND, Process, run_command, start_command, wait_until
from tests.runtime.scripts_recipe import compile_text

from posttrain.runtime.execution.stop_request import StopRequest
from posttrain.runtime.runners.process import ProcessHandle, ProcessRunner

# Far more than the tests need, and far less than the programs below take.
PATIENCE = 120
# The first run of the stage ignores every polite signal. The next one ends at once.
RECIPE = """\
recipe: 1
name: deaf
stages:
  it:
    script:
      - sh
      - -c
      - |
        test -e FOLDER/started && exit 0
        trap "" TERM INT HUP
        touch FOLDER/started
        while :; do sleep 1; done
"""
MODEL = """\
recipe: 1
name: model
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 1}
    tokenizer: {init: characters, alphabet: "0123456789"}
stages:
  out: {export: base}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("FOLDER", str(tmp_path)))
    return tmp_path


def _start(folder: Path, stop_timeout: float) -> Process:
    options = ("--home", folder / "home", "--stop-timeout", str(stop_timeout))
    client = start_command("run", folder, *options, log=folder / "log")
    wait_until((folder / "started").exists, "the program", client)
    return client


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_step_that_ignores_the_request_is_killed_and_runs_again(folder: Path, how: signal.Signals):
    client = _start(folder, 1)
    client.send_signal(how)
    assert client.wait(PATIENCE) == 130
    text = (folder / "log").read_text()
    assert "stopping at the next checkpoint, within 1 s" in text
    assert "interrupted" in text
    again = run_command("run", folder, "--home", folder / "home")
    assert again.returncode == 0, again.stdout + again.stderr


def test_the_second_signal_kills_at_once(folder: Path):
    client = _start(folder, 100_000)
    client.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in (folder / "log").read_text(), "the first request", client)
    client.send_signal(signal.SIGINT)
    assert client.wait(PATIENCE) == 130


def test_the_time_is_also_a_variable_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RECIPE_STOP_TIMEOUT", "0.5")
    client = start_command("run", folder, "--home", folder / "home", log=folder / "log")
    wait_until((folder / "started").exists, "the program", client)
    client.send_signal(signal.SIGTERM)
    assert client.wait(PATIENCE) == 130
    assert "within 0.5 s" in (folder / "log").read_text()


def test_a_closed_terminal_stops_the_run(folder: Path):
    """The run ends in order, although each write to the terminal fails, and its end is recorded."""
    command = [*RECIPE_COMMAND, "run", str(folder), "--home", str(folder / "home"), "--stop-timeout", "1"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    wait_until((folder / "started").exists, "the program")
    os.close(terminal)
    end = time.monotonic() + PATIENCE
    ended, status = 0, 0
    while not ended and time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.05)
    assert ended, "the run goes on without its terminal"
    assert os.waitstatus_to_exitcode(status) == 130
    shown = run_command("status", "--home", folder / "home")
    assert "interrupted" in shown.stdout, shown.stdout + shown.stderr


def test_a_run_under_nohup_survives_its_terminal(folder: Path):
    command = ["nohup", *RECIPE_COMMAND, "run", str(folder), "--home", str(folder / "home")]
    with (folder / "log").open("wb") as log:
        client = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_until((folder / "started").exists, "the program")
        client.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert client.poll() is None
        assert "stopping" not in (folder / "log").read_text()
    finally:
        client.kill()
        client.wait(PATIENCE)


def test_a_run_that_waits_for_another_one_stops(folder: Path):
    """Another client works on the step: it holds the lock of its key."""
    first = _start(folder, 1)
    (folder / "second").mkdir()
    (folder / "second" / "recipe.yaml").write_text((folder / "recipe.yaml").read_text())
    options = ("--home", folder / "home", "--stop-timeout", "100000")
    second = start_command("run", folder / "second", *options, log=folder / "log2")
    wait_until(lambda: len(list((folder / "home" / "runs").iterdir())) == 2, "the second run", second)
    assert second.poll() is None
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE) in (130, -signal.SIGTERM)
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE) == 130


def test_levels_of_a_request():
    request = StopRequest(seconds=100_000)
    assert request.level == 0
    request.stop()
    assert request.level == 1
    assert 0 < request.remaining() <= 100_000
    request.stop()
    assert request.level == 2
    late = StopRequest(seconds=0)
    late.stop()
    assert late.level == 2
    assert StopRequest(seconds=0).level == 0
    now = StopRequest()
    now.stop(now=True)
    assert now.level == 2


def test_a_step_that_ends_while_it_is_stopped_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forkserver can reap a worker between the poll and the signal."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    runner = ProcessRunner(use_forkserver=False)

    def poll_before(handle: ProcessHandle) -> None:
        assert handle.pid == ended.pid

    monkeypatch.setattr(runner, "poll", poll_before)
    handle = ProcessHandle(process=None, pid=ended.pid)
    runner.stop(handle)
    runner.stop(handle, now=True)


def test_a_stop_does_not_wait_for_the_imports_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forkserver is busy with an import when the step is requested."""
    (tmp_path / "endless_import.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    plan, _ = compile_text(tmp_path, MODEL)
    (tmp_path / "record").mkdir()
    runner = ProcessRunner()
    runner.preload(["endless_import"], tmp_path / "forkserver.log")
    try:
        with (tmp_path / "lock").open("wb") as lock:
            handle = runner.start(tmp_path, plan.steps[0], {}, lock.fileno())
        time.sleep(0.5)
        assert runner.poll(handle) is None
        runner.stop(handle)
        assert runner.poll(handle) == -signal.SIGKILL
    finally:
        runner.close()

"""Processes that try to outlive a step: with a new session, a double fork, an ignored SIGTERM."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.recipe_command import run_command, start_command, wait_until
from tests.runtime.process_tree import is_alive

# Writes its process ID and sleeps.
NAP = 'echo $$ >> "$PIDS"; exec sleep 100000'
ESCAPES = {
    "a child": "sh nap.sh &",
    "a session": "setsid sh nap.sh &",
    "a daemon": "(setsid sh -c 'sh nap.sh &' &)",
    "a deaf session": "setsid sh -c 'trap \"\" TERM HUP INT; exec sh nap.sh' &",
    "without variables": 'setsid env -i "PIDS=$PIDS" "PATH=$PATH" sh nap.sh &',
}
RECIPE = """\
recipe: 1
name: escapes
stages:
  it: {script: [sh, program.sh], files: [program.sh, nap.sh]}
"""
WAITS = {"ends": "true", "fails": "exit 3", "hangs": "sleep 100000"}


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], list[int]]]:
    """The processes that have escaped. They are killed at the end of the test."""
    file = tmp_path / "pids"

    def read() -> list[int]:
        return [int(word) for word in file.read_text().split()] if file.exists() else []

    yield read
    for pid in read():
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def _recipe(folder: Path, escape: str, wait: str) -> Path:
    program = f"{ESCAPES[escape]}\nwhile [ ! -s {folder}/pids ]; do sleep 0.05; done; {WAITS[wait]}"
    (folder / "program.sh").write_text(f"export PIDS={folder}/pids\n{program}\n")
    (folder / "nap.sh").write_text(NAP)
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE)
    return recipe


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("wait", ["ends", "fails"])
def test_no_process_outlives_a_program_that_ends(
    escape: str, wait: str, tmp_path: Path, pids: Callable[[], list[int]]
):
    done = run_command("run", _recipe(tmp_path, escape, wait), "--home", tmp_path / "home")
    assert done.returncode == (0 if wait == "ends" else 1), done.stdout + done.stderr
    assert pids()
    assert not [pid for pid in pids() if is_alive(pid)]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_no_process_outlives_its_client(
    escape: str, how: signal.Signals, tmp_path: Path, pids: Callable[[], list[int]]
):
    recipe = _recipe(tmp_path, escape, "hangs")
    client = start_command("run", recipe, "--home", tmp_path / "home", log=tmp_path / "log")
    wait_until(lambda: bool(pids()), "the program", client)
    os.kill(client.pid, how)
    client.wait(timeout=120)
    wait_until(lambda: not [pid for pid in pids() if is_alive(pid)], "the end of the processes")


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_process_outlives_a_worker_that_is_killed(
    escape: str, tmp_path: Path, pids: Callable[[], list[int]]
):
    recipe = _recipe(tmp_path, escape, "hangs")
    client = start_command("run", recipe, "--home", tmp_path / "home", log=tmp_path / "log")
    wait_until(lambda: bool(pids()), "the program", client)
    (worker,) = _workers(tmp_path / "home")
    os.kill(worker, signal.SIGKILL)
    assert client.wait(timeout=120) == 1
    assert not [pid for pid in pids() if is_alive(pid)]


def _workers(home: Path) -> list[int]:
    """The workers of a home, without their supervisors, which are their parents."""
    listed = subprocess.run(
        ["pgrep", "-f", f"posttrain.runtime.worker {home}"], capture_output=True, text=True, check=True
    )
    found = [int(word) for word in listed.stdout.split()]
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in found}
    return [pid for pid in found if pid not in parents]


def test_a_supervisor_exits_like_its_child(tmp_path: Path):
    for code, status in (("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 11)", -11)):
        (tmp_path / "ends.py").write_text(code)
        command = [sys.executable, "-m", "posttrain.runtime.child_process", str(os.getpid()), "9", "ends"]
        done = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)})
        assert done.returncode == status


# Starts a supervised program with 30 children, and dies while it kills them.
KILLER = """
import os, signal, subprocess, sys, threading, time
from posttrain.runtime.child_process import kill_supervised, supervised_command

process = subprocess.Popen(supervised_command("many", end_signal=signal.SIGKILL), start_new_session=True)
while not os.path.exists("ready"):
    time.sleep(0.01)
open("pids", "a").write(f"{process.pid}\\n")
threading.Thread(target=kill_supervised, args=[process]).start()
time.sleep(float(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""
MANY = """
import os, subprocess, time

for _ in range(30):
    subprocess.Popen(["sh", "nap.sh"], start_new_session=True)
while len(open("pids").read().splitlines()) < 30:
    time.sleep(0.01)
open("ready", "w").close()
time.sleep(100000)
"""


@pytest.mark.parametrize("seconds", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032])
def test_no_process_remains_when_a_killer_is_killed(
    seconds: float, tmp_path: Path, pids: Callable[[], list[int]]
):
    for name, text in {"killer.py": KILLER, "many.py": MANY, "nap.sh": NAP, "pids": ""}.items():
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PIDS": "pids"}
    command = [sys.executable, "killer.py", str(seconds)]
    assert subprocess.run(command, check=False, cwd=tmp_path, env=environment).returncode == -signal.SIGKILL
    assert len(pids()) == 31
    wait_until(lambda: not [pid for pid in pids() if is_alive(pid)], "the end of the processes")

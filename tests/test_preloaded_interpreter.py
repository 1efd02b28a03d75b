"""A fork of the preloaded interpreter behaves like a new process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.preloaded_client import START_ENVIRONMENT, PreloadedProcess, can_preload
from tests.runtime.process_tree import command_line

# Reports what a program sees of its surroundings, and ends as the first argument says.
PROGRAM = """
import atexit, gc, os, signal, sys, time
atexit.register(print, "at exit")
print(__name__, sys.argv[1:], os.getcwd(), sys.path[0], os.environ.get("RECIPE_COLOR"))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM))
print(gc.isenabled(), gc.get_threshold(), sorted(os.listdir("/proc/self/fd"))[:3], sys.stdin.read())
print("problem", file=sys.stderr)
match sys.argv[1]:
    case "number": sys.exit(3)
    case "raises": raise ValueError("wrong")
    case "sleeps":
        sys.stdout.flush()
        time.sleep(600)
"""


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, which new processes would inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(folder: Path, how: str, *, preloaded: bool) -> "PreloadedProcess | subprocess.Popen[bytes]":
    (folder / "program.py").write_text(PROGRAM)
    with (
        Path(os.devnull).open("rb") as nothing,
        (folder / "out").open("wb") as out,
        (folder / "err").open("wb") as err,
    ):
        if preloaded:
            return PreloadedProcess("program", how, stdin=nothing, stdout=out, stderr=err, cwd=folder)
        command = [sys.executable, "-m", "program", how]
        return subprocess.Popen(command, stdin=nothing, stdout=out, stderr=err, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["number", "raises", "returns"])
def test_a_fork_ends_like_a_new_process(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECIPE_COLOR", "red")
    seen: list[tuple[int, str, str]] = []
    for preloaded in (True, False):
        status = start(tmp_path, how, preloaded=preloaded).wait(timeout=300)
        errors = (tmp_path / "err").read_text().splitlines()
        seen.append((status, (tmp_path / "out").read_text(), errors[0] + errors[-1]))
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_a_fork_can_be_found_and_killed(tmp_path: Path) -> None:
    process = start(tmp_path, "sleeps", preloaded=True)
    while "__main__" not in (tmp_path / "out").read_text():
        assert process.poll() is None
    assert command_line(process.pid).rstrip(b"\0").split(b"\0")[1:] == [b"-m", b"program", b"sleeps"]
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.01)
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert process.returncode == -signal.SIGKILL


def test_a_library_may_read_a_changed_variable_when_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(START_ENVIRONMENT))  # without what other tests have left
    monkeypatch.setenv("JUDGE_KEY", "secret")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "set by trl")
    assert can_preload()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert not can_preload()

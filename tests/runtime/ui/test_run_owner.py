"""A stop request reaches the client of the run, and no other process."""

import os
import signal
import subprocess
import sys

import pytest

from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.ui.run_owner import StopRefused, request_stop

# A process that holds the lock of a run, as a client does, and tells what it received.
HOLDER = """
import signal, sys, time
from pathlib import Path
from posttrain.runtime.store.file_locks import acquire_lock
if sys.argv[2] == "handles":
    signal.signal(signal.SIGTERM, lambda *_: (print("stopped", flush=True), sys.exit(7)))
lock = acquire_lock(Path(sys.argv[1]))
print("ready", flush=True)
time.sleep(300)
"""


@pytest.fixture
def started(run_builder, make):
    run_builder.begin(make.step("sft"))
    run_builder.work("sft")
    return run_builder


def hold(builder, how: str) -> "subprocess.Popen[str]":
    lock = str(builder.home.run_lock(builder.run))
    command = [sys.executable, "-c", HOLDER, lock, how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    builder.journal.set("pid", process.pid)
    return process


def test_the_client_receives_the_request(started):
    process = hold(started, "handles")
    request_stop(started.home, started.run)
    assert process.communicate(timeout=60)[0] == "stopped\n"
    assert process.returncode == 7
    with pytest.raises(StopRefused, match="has ended"):
        request_stop(started.home, started.run)


def test_a_process_with_the_same_number_is_spared(started):
    """The journal names a process that is not a client of this run: its number was given away again."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    started.journal.set("pid", process.pid)
    lock = acquire_lock(started.home.run_lock(started.run))  # another process runs the run
    with pytest.raises(StopRefused, match="does not hold the lock"):
        request_stop(started.home, started.run)
    assert process.poll() is None
    process.kill()
    process.wait()
    lock.discard()


def test_a_client_without_a_handler_is_spared(started):
    """A program that calls `run_plan` would be killed by the signal."""
    process = hold(started, "ignores")
    with pytest.raises(StopRefused, match="does not handle SIGTERM"):
        request_stop(started.home, started.run)
    assert process.poll() is None
    process.kill()
    process.communicate()


@pytest.mark.parametrize("pid", [None, "1", True, 0, -1, 1, 1 << 40, 1.5, {}])
def test_a_journal_without_a_process(started, pid):
    started.journal.set("pid", pid)
    with pytest.raises(StopRefused, match="names no process"):
        request_stop(started.home, started.run)


def test_a_finished_run_is_not_stopped(started, serve):
    started.journal.set("pid", os.getpid())
    handler = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("this process received the signal"))
    status, text = serve(started.home.root).post(f"run/0/{started.run.name}/stop")
    assert status == 409
    assert "does not hold the lock" in text
    signal.signal(signal.SIGTERM, handler)


def test_the_second_request_is_refused(started, serve):
    """A client takes a second signal for a request to stop without checkpoints."""
    process = hold(started, "handles")
    client = serve(started.home.root)
    path = f"run/0/{started.run.name}/stop"
    assert client.post(path)[0] == 303
    assert client.post(path)[0] == 409
    client.server.pages._runs.clear()  # as if many other pages were opened
    assert client.post(path)[0] == 409
    assert process.communicate(timeout=60)[0] == "stopped\n"

"""The worker pool: limits, lost tasks, replacement of workers, threads, and exit with the parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from posttrain.grading import worker_pool, worker_process
from posttrain.grading.grader import grade_many
from posttrain.grading.options import Options
from posttrain.grading.worker_pool import WorkerPool
from posttrain.grading.worker_process import Task

IDENTITY = (r"\sin^2 x + \cos^2 x", "1")
# About 0.3 s of CPU time, within the limit of steps.
SLOW = (r"\int_{-\infty}^{\infty} e^{-x^2} dx", r"\sqrt{2}")
WAIT_S = 60.0


@pytest.fixture
def pool():
    pool = WorkerPool(2)
    yield pool
    pool.close()


def is_alive(process: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_dead(process: int) -> bool:
    until = time.monotonic() + WAIT_S
    while is_alive(process) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(process)


def test_a_candidate_beyond_its_cpu_time_is_wrong_and_its_worker_replaced(pool):
    pairs = [IDENTITY, SLOW, ("\\tan x", "\\cot x"), SLOW]
    outcomes = pool.run([Task(*pair, Options(), 0.05 if pair is SLOW else WAIT_S) for pair in pairs])
    assert [outcome.equal for outcome in outcomes] == [True, False, False, False]
    assert outcomes[1].reason == "the candidate exceeds a limit: 0.05 s of CPU time"
    assert outcomes[1].path == "limit"
    assert (pool.stats.killed, pool.stats.retried) == (2, 0)
    assert pool.run([Task(*IDENTITY, Options(), WAIT_S)])[0].equal is True


def test_a_reference_beyond_its_cpu_time_leaves_the_candidate_undecided(pool):
    [outcome] = pool.run([Task(SLOW[1], SLOW[0], Options(), 0.05)])
    assert (outcome.equal, outcome.path) == (None, "limit")
    assert outcome.reason == "the reference exceeds a limit: 0.05 s of CPU time"


@pytest.fixture
def signalled_pool(monkeypatch):
    """A pool whose worker gets the next signal of the list before each task."""
    signals: list[int] = []

    def send_with_signal(worker, *task):
        if signals:
            os.kill(worker.process.pid, signals.pop())
        worker_process.send_task(worker, *task)

    monkeypatch.setattr(worker_pool, "send_task", send_with_signal)
    pool = WorkerPool(1)
    yield pool, signals
    pool.close()


@pytest.mark.parametrize(
    ("losses", "equal", "reason"),
    [
        (1, False, "different within 24 digits"),
        (2, None, "a worker exited with code -9, twice"),
    ],
)
def test_a_lost_task_is_graded_once_more_and_then_undecided(signalled_pool, losses, equal, reason):
    pool, signals = signalled_pool
    signals += [signal.SIGKILL] * losses
    [outcome] = pool.run([Task(*SLOW, Options(), WAIT_S)])
    assert (outcome.equal, outcome.reason) == (equal, reason)
    assert signals == []
    assert pool.stats.retried == 1


def test_a_stopped_worker_is_a_failure_of_the_machine(signalled_pool, monkeypatch):
    """A worker that gets no CPU time never reaches its CPU limit: the wall clock ends it."""
    monkeypatch.setattr(worker_process, "MIN_WALL_SECONDS", 0.5)
    monkeypatch.setattr(worker_process, "WALL_FACTOR", 0.0)
    pool, signals = signalled_pool
    signals += [signal.SIGSTOP] * 2
    [outcome] = pool.run([Task(*SLOW, Options(), WAIT_S)])
    assert (outcome.equal, outcome.reason) == (None, "no answer of a worker within 0.5 s, twice")
    assert pool.stats.killed == 2


def test_killed_workers_leave_no_process(pool):
    pool.run([Task(*IDENTITY, Options(), WAIT_S)])
    worker = pool.idle[0].process.pid
    assert is_alive(worker)
    pool.close()
    assert not is_alive(worker)


def test_threads_share_the_pool(pool):
    results: dict[int, list] = {}

    def work(number: int) -> None:
        results[number] = grade_many([IDENTITY, ("\\sin x", f"\\cos {number}x")], pool=pool)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[verdict.equal for verdict in results[number]] for number in range(4)] == [[True, False]] * 4
    assert pool.stats.started <= pool.size


def test_a_worker_survives_the_thread_that_asked_for_it(pool):
    thread = threading.Thread(target=lambda: pool.run([Task(*IDENTITY, Options(), WAIT_S)]))
    thread.start()
    thread.join()
    assert pool.run([Task(*IDENTITY, Options(), WAIT_S)])[0].equal is True
    assert (pool.stats.started, pool.stats.killed) == (1, 0)


def test_an_idle_worker_that_was_killed_is_replaced(pool):
    pool.run([Task(*IDENTITY, Options(), WAIT_S)])
    os.kill(pool.idle[0].process.pid, signal.SIGKILL)
    pool.idle[0].process.wait()
    assert pool.run([Task(*IDENTITY, Options(), WAIT_S)])[0].equal is True
    assert pool.stats.started == 2


def test_a_worker_sees_no_environment(pool, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "secret-value")
    pool.run([Task(*IDENTITY, Options(), WAIT_S)])
    environment = Path(f"/proc/{pool.idle[0].process.pid}/environ").read_bytes()
    assert b"PYTHONPATH" in environment
    assert b"secret-value" not in environment


PARENT = """
import pathlib, threading, time
from posttrain.grading.options import Options
from posttrain.grading.worker_pool import WorkerPool
from posttrain.grading.worker_process import Task
pool = WorkerPool(2)
pool.run([Task(r"\\sin^2 x + \\cos^2 x", "1", Options(), 60.0)])
series = r"\\sum_{n=1}^\\infty \\frac{1}{n^4} + \\int_{-\\infty}^{\\infty} e^{-x^2} dx"
busy = Task(series, r"\\frac{1}{2}", Options(), 600.0)
threading.Thread(target=pool.run, args=([busy, busy],), daemon=True).start()
while pool.stats.tasks < 3:
    time.sleep(0.02)
threads = pathlib.Path("/proc/self/task").iterdir()
print(*(thread.joinpath("children").read_text() for thread in threads), flush=True)
time.sleep(600)
"""


def test_workers_die_with_a_parent_that_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(number) for number in parent.stdout.readline().split()]
    assert len(workers) == 2
    assert all(is_alive(worker) for worker in workers)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert all(wait_until_dead(worker) for worker in workers)


def test_the_kernel_ends_a_worker_that_computes_for_too_long():
    program = "from posttrain.grading.worker import limit_cpu_time\nlimit_cpu_time(0.1)\nwhile True: pass\n"
    done = subprocess.run([sys.executable, "-c", program], timeout=WAIT_S, check=False)
    assert done.returncode == -signal.SIGPROF


FORK = r"""
import os
from posttrain.grading.grader import grade
identity = (r"\sin^2 x + \cos^2 x", "1")
assert grade(*identity).equal
child = os.fork()
if child == 0:
    os._exit(0 if grade(*identity).equal and grade("1", "1").equal else 3)
assert os.waitpid(child, 0)[1] == 0
assert grade(r"\sin 2x", r"2\sin x\cos x").equal
"""


def test_a_forked_child_has_workers_of_its_own():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=WAIT_S)

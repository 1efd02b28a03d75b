"""Attempts, claims, pools and the monitor, without an engine."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.recipe_command import wait_until
from tests.runtime.cluster.programs import WAITING, starts, write_recipe

from posttrain.cli.compile import compile_file
from posttrain.runtime.errors import FAILED, StepError
from posttrain.runtime.runners.cluster import cluster_runner
from posttrain.runtime.runners.cluster.attempt_files import (
    AttemptFiles,
    begin_attempt,
    current_attempt,
    forget_attempt,
    has_live_job,
    new_token,
)
from posttrain.runtime.runners.cluster.cluster_runner import ClusterRunner
from posttrain.runtime.runners.cluster.job_handle import JobHandle
from posttrain.runtime.runners.cluster.job_monitor import JobMonitor, JobSnapshot
from posttrain.runtime.runners.cluster.job_request import JobRequest
from posttrain.runtime.runners.cluster.node_pool import NodePool
from posttrain.runtime.runners.cluster.node_program import check_stack
from posttrain.runtime.runners.cluster.pool_jobs import PoolJobs
from posttrain.runtime.runners.cluster.scheduler import JobSpec, JobState, SchedulerError
from posttrain.runtime.store import workdir
from posttrain.runtime.store.garbage import find_garbage, used_workdirs
from posttrain.runtime.store.home import Home
from posttrain.spec.place import SlurmPlace
from posttrain.spec.plan import SourceLocation, Step
from posttrain.spec.step_records import ClusterAttempt
from posttrain.spec.version import VERSION

KEY = "ab" * 32


def attempt(**values: object) -> ClusterAttempt:
    return ClusterAttempt.model_validate(
        {
            "token": new_token(),
            "job_name": "posttrain-x",
            "release": VERSION,
            "variables": {},
            "secrets": False,
            **values,
        }
    )


def step(environment: dict[str, str]) -> Step:
    return Step(
        id="work",
        kind="script",
        entry="posttrain.runtime.verbs.script:run",
        params={},
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key=KEY,
        key_parts={},
        key_values={"environment": environment},
    )


class FakeScheduler:
    """Counts calls, and knows the jobs that it was given."""

    name = "Fake"

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.submitted: list[JobSpec] = []
        self.error: StepError | None = None
        self.listed = [JobState(id="7", name="posttrain-x", phase="running")]

    def open(self) -> None: ...

    def submit(self, job: JobSpec, lock: int | None = None) -> str:
        self.submitted.append(job)
        return str(len(self.submitted))

    def jobs(self) -> Sequence[JobState]:
        self.calls.append(time.monotonic())
        if self.error is not None:
            raise self.error
        return self.listed

    def nodes(self) -> Sequence[str]:
        return ()

    def rejection(self, job: JobSpec) -> str | None:
        return None

    def cancel_pending(self, id: str) -> None: ...

    def terminate(self, id: str) -> None: ...

    def kill(self, id: str) -> None: ...

    def explain_end(self, job: JobState, *, terminated: bool = False) -> StepError:
        return StepError("ended")

    def close(self) -> None: ...


def test_the_file_of_secrets_is_private_and_read_once(tmp_path: Path) -> None:
    work = tmp_path / KEY
    files = begin_attempt(work, attempt(secrets=True), {"TOKEN": "value"})
    file = files.folder / "secrets.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert files.take_secrets() == {"TOKEN": "value"}
    assert not file.exists()
    again = begin_attempt(work, attempt(secrets=True), {"TOKEN": "value"})
    forget_attempt(work)
    assert not (again.folder / "secrets.json").exists()


def test_one_of_many_claims_wins(tmp_path: Path) -> None:
    files = begin_attempt(tmp_path / KEY, attempt(), {})
    won: list[str] = []
    barrier = threading.Barrier(8)

    def claim(job: str) -> None:
        barrier.wait()
        if files.claim(job, "node"):
            won.append(job)

    threads = [threading.Thread(target=claim, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    claimed = files.claimed_by()
    assert claimed is not None
    assert won == [claimed.job]


def test_a_new_attempt_voids_the_old_one(tmp_path: Path) -> None:
    old = begin_attempt(tmp_path / KEY, attempt(), {})
    new = begin_attempt(tmp_path / KEY, attempt(), {})
    assert not old.claim("1", "node")
    old.end(0, terminated=False)
    assert AttemptFiles(old.work, old.token).ended() is None
    current = current_attempt(tmp_path / KEY)
    assert current is not None
    assert current.token == new.token


def test_a_program_whose_attempt_is_void_kills_its_worker_and_writes_nothing(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "waits", work=WAITING)
    plan = compile_file(recipe / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    home = Home(tmp_path / "home")
    home.prepare()
    work = home.workdir(plan.steps[0].key)
    workdir.prepare(work, plan.steps[0], {}, recipe)
    files = begin_attempt(work, attempt(), {})
    program = subprocess.Popen(
        [sys.executable, "-m", "posttrain.runtime.runners.cluster.node_program", "step", str(work)],
        env={**os.environ, "POSTTRAIN_CLUSTER_JOB": "1"},
    )
    try:
        wait_until(lambda: starts(recipe) == 1, "the beginning of the step")
        begin_attempt(work, attempt(), {})
        assert program.wait(timeout=60) == 0
    finally:
        program.kill()
    assert files.ended() is None
    assert not (work / "receipt.json").exists()
    assert not any(str(recipe).encode() in _command_line(entry) for entry in Path("/proc").glob("[0-9]*"))


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_job_without_an_attempt_ends(tmp_path: Path) -> None:
    (tmp_path / "work" / KEY).mkdir(parents=True)
    command = [sys.executable, "-m", "posttrain.runtime.runners.cluster.node_program"]
    arguments = [*command, "step", str(tmp_path / "work" / KEY)]
    done = subprocess.run(arguments, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0
    assert "only `recipe run` prepares a step for its job" in done.stdout


def test_a_node_that_does_not_see_the_home_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "posttrain.runtime.runners.cluster.node_program"]
    folder = str(tmp_path / "elsewhere" / "work" / KEY)
    done = subprocess.run([*command, "step", folder], check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"has no {folder}: the home must be on a disk that all nodes share" in done.stdout


def test_a_kept_alive_program_ends_when_no_step_comes(tmp_path: Path) -> None:
    pool = tmp_path / "nodes" / "pool"
    pool.mkdir(parents=True)
    command = [sys.executable, "-m", "posttrain.runtime.runners.cluster.node_program"]
    assert subprocess.run([*command, "serve", str(pool), "0.2"], check=False, timeout=60).returncode == 0
    long = subprocess.Popen([*command, "serve", str(pool), "1000"])
    time.sleep(1)
    long.send_signal(signal.SIGTERM)
    assert long.wait(timeout=60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("changed", ["posttrain", "library"])
def test_other_versions_on_the_node_are_an_error(changed: str) -> None:
    from importlib.metadata import version

    planned = step({"numpy": "0.1" if changed == "library" else version("numpy")})
    with pytest.raises(StepError, match="other versions than the plan") as raised:
        check_stack(planned, "0.0.1" if changed == "posttrain" else VERSION)
    assert ("posttrain" if changed == "posttrain" else "numpy") in str(raised.value)
    if changed == "posttrain":
        check_stack(planned, VERSION)


def test_the_monitor_calls_the_engine_at_most_once_per_second() -> None:
    scheduler = FakeScheduler()
    monitor = JobMonitor(scheduler)
    deadline = time.monotonic() + 3.5
    while time.monotonic() < deadline:
        monitor.latest()
        time.sleep(0.005)
    monitor.close()
    gaps = [after - before for before, after in zip(scheduler.calls, scheduler.calls[1:], strict=False)]
    assert 2 <= len(scheduler.calls) <= 4
    assert min(gaps) >= 1.0


def test_a_fresh_snapshot_raises_the_error_of_the_engine() -> None:
    scheduler = FakeScheduler()
    scheduler.error = SchedulerError("Slurm does not answer", retriable=True)
    monitor = JobMonitor(scheduler)
    with pytest.raises(SchedulerError, match="does not answer"):
        monitor.fresh()
    scheduler.error = None
    assert monitor.fresh().find("7") is not None
    monitor.close()


def test_a_pool_gets_a_job_for_each_step_that_no_job_can_take(tmp_path: Path) -> None:
    home = Home(tmp_path)
    pool = NodePool(home.node_pools / "pool")
    scheduler = FakeScheduler()
    spec = JobSpec(
        name="pool",
        command=["true"],
        request=JobRequest(cpus=1, memory_gb=None, gpus=0),
        output=pool.folder / "output",
    )
    jobs = PoolJobs(pool, scheduler, spec, max_nodes=2)
    offered = [begin_attempt(home.workdir(f"{n:x}" * 64), attempt(pool="pool"), {}) for n in range(3)]
    none = JobSnapshot(time.monotonic(), ())
    filled: list[int] = []
    for files in offered:
        pool.offer(files)
        filled.append(jobs.fill(none))
    assert filled == [1, 1, 0]  # two nodes at most
    live = [JobState(id=id, name="pool", phase="running") for id in ("1", "2")]
    for files, job in zip(offered, ("1", "2"), strict=False):
        assert files.claim(job, "node")
    assert pool.open_offers() == 1
    assert jobs.fill(JobSnapshot(time.monotonic(), live[:1])) == 0  # an idle job takes it
    pool.mark_busy("1")
    assert jobs.fill(JobSnapshot(time.monotonic(), live[:1])) == 1


def test_an_engine_that_does_not_answer_voids_no_attempt(tmp_path: Path) -> None:
    """A client reattaches to it. Once the engine answers, the end of its job is found."""
    scheduler = FakeScheduler()
    runner = ClusterRunner(SlurmPlace(engine="slurm"), scheduler)
    work = Home(tmp_path).workdir(KEY)
    files = begin_attempt(work, attempt(), {})
    assert files.claim("9", "node")
    scheduler.error = SchedulerError("Slurm does not answer", retriable=True)
    handle = runner.attach(work, step({}))
    assert handle is not None
    assert runner.poll(handle) is None
    scheduler.error = None
    wait_until(lambda: runner.poll(handle) is not None, "the end of the job", seconds=30)
    assert current_attempt(work) is None
    assert (work / "failure.json").exists()
    runner.close()


def ended_handle(work: Path, runner: ClusterRunner, status: int) -> JobHandle:
    """A step whose program got SIGTERM, and whose worker wrote a receipt all the same."""
    files = begin_attempt(work, attempt(), {})
    assert files.claim("9", "node")
    (work / "receipt.json").write_text("{}")
    files.end(status, terminated=True)
    handle = runner.attach(work, step({})) if status == 0 else None
    return handle or JobHandle(step({}), files, "posttrain-x")


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "PREEMPTED", ""])
def test_the_receipt_of_a_job_that_the_engine_stopped_does_not_count(tmp_path: Path, state: str) -> None:
    """The engine sent SIGTERM to the programs of the step too, which took their end for a result."""
    scheduler = FakeScheduler()
    scheduler.listed = [JobState(id="9", name="posttrain-x", phase="over", state=state)] if state else []
    runner = ClusterRunner(SlurmPlace(engine="slurm"), scheduler)
    work = Home(tmp_path).workdir(KEY)
    handle = ended_handle(work, runner, 0)
    wait_until(lambda: runner.poll(handle) is not None, "the end of the step", seconds=30)
    assert runner.poll(handle) == FAILED
    assert not (work / "receipt.json").exists()
    runner.close()


def test_a_step_that_ended_after_the_warning_before_the_time_limit_counts(tmp_path: Path) -> None:
    scheduler = FakeScheduler()
    scheduler.listed = [JobState(id="9", name="posttrain-x", phase="over", state="COMPLETED")]
    runner = ClusterRunner(SlurmPlace(engine="slurm"), scheduler)
    handle = ended_handle(Home(tmp_path).workdir(KEY), runner, 0)
    wait_until(lambda: runner.poll(handle) is not None, "the end of the step", seconds=30)
    assert runner.poll(handle) == 0
    runner.close()


def test_a_job_in_the_queue_has_the_reason_of_the_engine(tmp_path: Path) -> None:
    scheduler = FakeScheduler()
    waiting = JobState(id="9", name="posttrain-x", phase="pending", state="PENDING", reason="Priority")
    scheduler.listed = [waiting]
    runner = ClusterRunner(SlurmPlace(engine="slurm"), scheduler)
    work = Home(tmp_path).workdir(KEY)
    files = begin_attempt(work, attempt(), {})
    handle = runner.attach(work, step({}))
    assert handle is not None
    assert runner.queue_reason(handle) == "Fake: Priority"
    scheduler.error = SchedulerError("Fake does not answer", retriable=True)
    runner.poll(handle)
    wait_until(lambda: runner.queue_reason(handle) == "Fake does not answer", "the failed call", seconds=10)
    assert files.claim("9", "node")
    assert runner.queue_reason(handle) is None
    runner.close()


def test_garbage_collection_leaves_the_folders_of_jobs(tmp_path: Path) -> None:
    """A job outlives its client, and holds no lock."""
    home = Home(tmp_path)
    home.prepare()
    queued, running, ended, void = (home.workdir(digit * 64) for digit in "abcd")
    claimed = begin_attempt(running, attempt(job_name="r"), {})
    begin_attempt(queued, attempt(job_name="q"), {})
    begin_attempt(ended, attempt(), {}).end(0, terminated=False)
    begin_attempt(void, attempt(), {})
    forget_attempt(void)
    assert claimed.claim("7", "node")
    assert {item.path for item in find_garbage(home)} == {ended, void}
    jobs = [JobState(id="7", name="r", phase="running"), JobState(id="8", name="q", phase="pending")]
    assert {item.path for item in find_garbage(home, has_job=partial(has_live_job, jobs=jobs))} == {
        ended,
        void,
    }
    found = find_garbage(home, has_job=partial(has_live_job, jobs=jobs[1:]))
    assert {item.path for item in found} == {running, ended, void}
    assert used_workdirs(home) == [queued, running]


def test_an_engine_that_does_not_answer_for_some_time_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps seem to run for ever: the user must know why."""
    monkeypatch.setattr(cluster_runner, "_OUTAGE_SECONDS", 0.5)
    scheduler = FakeScheduler()
    runner = ClusterRunner(SlurmPlace(engine="slurm"), scheduler)
    runner.monitor.fresh()
    assert runner.outage() is None
    scheduler.error = SchedulerError("Fake does not answer", retriable=True)
    expected = "Fake does not answer; the run waits until Fake answers"
    wait_until(
        lambda: bool(runner.monitor.latest()) and runner.outage() == expected, "the outage", seconds=10
    )
    scheduler.error = None
    wait_until(lambda: bool(runner.monitor.latest()) and runner.outage() is None, "its end", seconds=10)
    runner.close()

"""`run_plan` without the command line: results, errors, stop requests, and the calls of the observer."""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import find_processes
from tests.runtime.scripts_recipe import FAILING, RECIPE, SLEEPING, compile_text, run_text

from posttrain.runtime.execution.run_errors import HomeNotWritable, PreflightFailed, SelectionError
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.execution.run_plan import RunOptions, run_plan
from posttrain.runtime.execution.selection import SelectionOptions
from posttrain.runtime.execution.stop_request import StopRequest
from posttrain.runtime.machine import Machine
from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import find_step_product, list_runs


class Recorder(RunObserver):
    """Records the calls of a run."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self.calls: list[str] = []
        self.run: Path | None = None

    @contextmanager
    def execution(self, run: Path) -> Generator[None]:
        self.run = run
        self.calls.append("enter")
        try:
            yield
        finally:
            self.calls.append("exit")

    def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        self.calls.append(state)
        if state != "progress":
            self.changes.append((id, state))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def journal_value(run: Path, name: str) -> Any:
    journal = Journal(run / "journal.sqlite", read=True)
    value = journal.get(name)
    journal.close()
    return value


def test_a_run_commits_products_and_reports_every_change(tmp_path: Path, home: Home) -> None:
    observer = Recorder()
    result = run_text(tmp_path, RECIPE, home, observer)
    assert result.states == {"count": "done", "double": "done"}
    assert result.succeeded
    assert not result.stopped
    product = find_step_product(home, result.run, "double")
    assert product is not None
    assert (product.files / "count").read_text().strip() == "6"
    assert observer.changes == [
        ("count", "running"),
        ("count", "done"),
        ("double", "running"),
        ("double", "done"),
    ]
    assert (observer.calls[0], observer.calls[-1], observer.run) == ("enter", "exit", result.run)
    assert journal_value(result.run, "result") == "finished"
    assert journal_value(result.run, "recipe") == str(tmp_path / "recipe.yaml")
    assert result.report is not None
    assert "programs" in result.report.read_text()
    assert not is_held(home.run_lock(result.run))


def test_finished_steps_are_cached(tmp_path: Path, home: Home) -> None:
    run_text(tmp_path, RECIPE, home)
    observer = Recorder()
    again = run_text(tmp_path, RECIPE, home, observer)
    assert again.states == {"count": "cached", "double": "cached"}
    assert again.succeeded
    assert again.report is None
    assert not (again.run / "report.html").exists()
    assert observer.changes == [("count", "cached"), ("double", "cached")]


def test_a_selection_runs_its_steps_only(tmp_path: Path, home: Home) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    first = RunOptions(recipe=options.recipe, selection=SelectionOptions(only=["count"]))
    assert run_plan(plan, home, first).states == {"count": "done", "double": "skipped"}
    second = RunOptions(recipe=options.recipe, selection=SelectionOptions(from_stages=["double"]))
    assert run_plan(plan, home, second).states == {"count": "skipped", "double": "done"}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (SelectionOptions(only=["cout"]), "did you mean `count`"),
        (SelectionOptions(only=["double"]), "reads `count`, which is not selected"),
    ],
)
def test_a_wrong_selection_starts_no_run(
    selection: SelectionOptions, message: str, tmp_path: Path, home: Home
) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    with pytest.raises(SelectionError, match=message):
        run_plan(plan, home, RunOptions(recipe=options.recipe, selection=selection))
    assert list_runs(home) == []


def test_a_machine_that_is_too_small_starts_no_run(tmp_path: Path, home: Home) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    small = RunOptions(recipe=options.recipe, machine=Machine(cpus=0, memory_gb=1.0))
    with pytest.raises(PreflightFailed) as raised:
        run_plan(plan, home, small)
    assert [(one.check, one.steps) for one in raised.value.findings] == [
        ("machine", ("count",)),
        ("machine", ("double",)),
    ]
    assert list_runs(home) == []
    run_plan(plan, home, options)
    assert run_plan(plan, home, small).states == {"count": "cached", "double": "cached"}


def test_a_home_that_is_not_writable_starts_no_run(tmp_path: Path, home: Home) -> None:
    home.root.mkdir()
    home.runs.write_text("a file in the place of a folder")
    with pytest.raises(HomeNotWritable, match="is not a folder") as raised:
        run_text(tmp_path, RECIPE, home)
    assert raised.value.home == home.root


def test_a_failed_step_blocks_its_dependents(tmp_path: Path, home: Home) -> None:
    result = run_text(tmp_path, FAILING, home)
    assert result.states == {"count": "failed", "double": "blocked"}
    assert not result.succeeded
    assert not result.stopped
    assert result.report is not None
    assert journal_value(result.run, "result") == "blocked and failed"


@pytest.mark.parametrize("now", [False, True])
def test_a_stop_request_from_another_thread_ends_the_run(now: bool, tmp_path: Path, home: Home) -> None:
    plan, options = compile_text(tmp_path, SLEEPING)
    stop, started = StopRequest(), threading.Event()

    class Starter(RunObserver):
        def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
            started.set()

    def stop_when_started() -> None:
        assert started.wait(60)
        stop.stop(now=now)

    thread = threading.Thread(target=stop_when_started)
    thread.start()
    result = run_plan(plan, home, options, Starter(), stop)
    thread.join()
    assert result.states["count"] == "interrupted"
    assert result.states["double"] in ("interrupted", "blocked")
    assert result.stopped
    assert not result.succeeded
    assert find_processes(home.root) == []


def test_a_stop_request_before_the_run_starts_no_step(tmp_path: Path, home: Home) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    stop = StopRequest()
    stop.stop()
    result = run_plan(plan, home, options, stop_request=stop)
    assert result.states == {"count": "interrupted", "double": "blocked"}


def test_an_error_of_the_observer_leaves_no_process_and_no_lock(tmp_path: Path, home: Home) -> None:
    class Broken(RunObserver):
        def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
            raise ConnectionError("the page is closed")

    with pytest.raises(ConnectionError, match="the page is closed"):
        run_text(tmp_path, SLEEPING, home, Broken())
    assert find_processes(home.root) == []
    (run,) = list_runs(home)
    assert not is_held(home.run_lock(run))
    assert run_text(tmp_path, RECIPE, home).succeeded


def test_the_report_is_optional(tmp_path: Path, home: Home) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    result = run_plan(plan, home, RunOptions(recipe=options.recipe, report=False))
    assert result.succeeded
    assert result.report is None
    assert not (result.run / "report.html").exists()


def test_an_error_of_the_report_does_not_change_the_result(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no font")

    monkeypatch.setattr("posttrain.runtime.report.report_writer.write_report", fail)
    result = run_text(tmp_path, RECIPE, home)
    assert (result.succeeded, result.report, result.report_error) == (True, None, "no font")


@pytest.mark.parametrize("track", [False, True])
def test_trackers_are_launched_around_the_execution(
    track: bool, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Recorder()

    class Launcher:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> None:
            observer.calls.append("launch")

        def __exit__(self, *_: object) -> None:
            observer.calls.append("close")

    monkeypatch.setattr("posttrain.runtime.trackers.tracker_launcher.TrackerLauncher", Launcher)
    plan, options = compile_text(tmp_path, RECIPE + "tracking: [tensorboard]\n")
    run_plan(plan, home, RunOptions(recipe=options.recipe, track=track), observer)
    expected = ["launch", "enter", "exit", "close"] if track else ["enter", "exit"]
    assert [call for call in observer.calls if call in ("launch", "enter", "exit", "close")] == expected

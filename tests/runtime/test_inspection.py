"""Runs, products, logs and states of a home, read without the command line."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.scripts_recipe import FAILING, RECIPE, SLEEPING, compile_text, run_text

from posttrain.runtime.execution.adopt_stages import StepAdoption, adopt_stages
from posttrain.runtime.execution.run_errors import SelectionError
from posttrain.runtime.inspection.run_lookup import UnknownName, find_product, find_run, find_training_step
from posttrain.runtime.inspection.run_status import UnreadableStatus, list_run_summaries, read_run_status
from posttrain.runtime.inspection.step_log import NoLog, StepLog, find_log, read_log
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import list_runs, new_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Path]:
    """A home with one finished run."""
    folder = tmp_path_factory.mktemp("inspection")
    home = Home(folder / "home")
    return home, run_text(folder, RECIPE, home).run


def test_a_run_is_found_by_the_start_of_its_name(finished: tuple[Home, Path], tmp_path: Path) -> None:
    home, run = finished
    assert find_run(home, None) == run
    assert find_run(home, run.name[:10]) == run
    with pytest.raises(UnknownName, match="starts with `1999`"):
        find_run(home, "1999")
    with pytest.raises(UnknownName, match="start one with `recipe run PATH`"):
        find_run(Home(tmp_path), None)


def test_products_and_logs_are_found_by_stage(finished: tuple[Home, Path]) -> None:
    home, run = finished
    files = find_product(home, run, "double")
    assert files is not None
    assert (files / "count").read_text().strip() == "6"
    log = find_log(home, run, "count")
    assert isinstance(log, StepLog)
    assert "".join(read_log(log, follow=False)).endswith("counted\n")
    for find in (find_product, find_log):
        with pytest.raises(UnknownName, match="did you mean `count`"):
            find(home, run, "cuont")
    with pytest.raises(UnknownName, match="no training stage `count`"):
        find_training_step(run, "count")


def test_following_the_log_of_a_finished_step_ends(finished: tuple[Home, Path]) -> None:
    home, run = finished
    log = find_log(home, run, "count")
    assert isinstance(log, StepLog)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend(read_log(log, follow=True)), daemon=True)
    reader.start()
    reader.join(30)
    assert not reader.is_alive()
    assert "".join(read).endswith("counted\n")


def test_a_log_is_followed_until_its_step_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n")
    running = StepLog(log=log, events=tmp_path / "events.jsonl", has_ended=lambda: False)
    pieces: Iterator[str] = read_log(running, follow=True)
    assert next(pieces) == "first\n"

    def write_and_end() -> None:
        with log.open("a") as file:
            file.write("second\n")
        log.unlink()

    thread = threading.Thread(target=write_and_end)
    thread.start()
    assert list(pieces) == ["second\n"]
    thread.join()


@pytest.mark.parametrize("text", [FAILING, SLEEPING])
def test_following_the_log_of_a_step_that_failed_or_was_killed_ends(tmp_path: Path, text: str) -> None:
    """A killed client leaves `running` in the journal; the locks are free then."""
    home = Home(tmp_path / "home")
    if text == FAILING:
        run = run_text(tmp_path, text, home).run
    else:
        plan, options = compile_text(tmp_path, text)
        run = new_run(home, plan, options.recipe)
        journal = Journal(run / "journal.sqlite")
        journal.update_step("count", "running", attempt=1)
        journal.close()
        record = home.workdir(plan.step("count").key) / "record"
        record.mkdir(parents=True)
        (record / "log").write_text("started\n")
    log = find_log(home, run, "count")
    assert isinstance(log, StepLog)
    reader = threading.Thread(target=lambda: list(read_log(log, follow=True)), daemon=True)
    reader.start()
    reader.join(30)
    assert not reader.is_alive()


def test_the_log_of_a_step_that_did_not_start_says_why(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    run = run_text(tmp_path, FAILING, home).run
    found = find_log(home, run, "double")
    assert isinstance(found, NoLog)
    assert found.reason == "`double` has not started (blocked): count was failed"


def test_the_log_of_an_earlier_run_is_not_that_of_a_step_that_did_not_start(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    run_text(tmp_path, FAILING, home)
    plan, options = compile_text(tmp_path, FAILING)
    run = new_run(home, plan, options.recipe)
    journal = Journal(run / "journal.sqlite")
    journal.update_step("count", "failed", reason="8 rows are needed", advice="add rows")
    journal.close()
    found = find_log(home, run, "count")
    assert isinstance(found, NoLog)
    assert (found.reason, found.advice) == ("`count` has not started (failed): 8 rows are needed", "add rows")


def test_the_status_of_a_run_has_states_and_results(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    run = run_text(tmp_path, FAILING, home).run
    status = read_run_status(home, run)
    assert (status.name, status.result) == (run.name, "blocked and failed")
    assert [(step.entry.id, step.entry.state) for step in status.steps] == [
        ("count", "failed"),
        ("double", "blocked"),
    ]
    assert [(step.facts, step.metrics) for step in status.steps] == [({}, {}), ({}, {})]
    (run / "journal.sqlite").write_bytes(b"garbage" * 100)
    with pytest.raises(UnreadableStatus, match="damaged"):
        read_run_status(home, run)


def test_summaries_tell_running_interrupted_and_damaged_runs_apart(tmp_path: Path) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    home = Home(tmp_path / "home")
    runs = [new_run(home, plan, options.recipe) for _ in range(4)]
    lock = acquire_lock(home.run_lock(runs[0]))
    (runs[2] / "journal.sqlite").unlink()
    (runs[3] / "journal.sqlite").write_bytes(b"garbage" * 100)
    found = list(list_run_summaries(home))
    lock.release()
    assert [run.name for run in found] == [run.name for run in runs]
    assert [run.state for run in found] == ["running", "interrupted", "no journal", "journal damaged"]
    assert [dict(run.steps) for run in found] == [{"waiting": 2}, {"waiting": 2}, {}, {}]


@pytest.mark.parametrize(
    ("began", "ended", "seconds"), [(1.0, 3.5, 2.5), (3.0, 1.0, None), (1.0, None, None)]
)
def test_the_duration_of_a_run(
    began: float, ended: float | None, seconds: float | None, tmp_path: Path
) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    home = Home(tmp_path / "home")
    run = new_run(home, plan, options.recipe)
    journal = Journal(run / "journal.sqlite")
    journal.set("began", began)
    if ended is not None:
        journal.set("ended", ended)
    journal.close()
    (summary,) = list_run_summaries(home)
    assert summary.seconds == seconds


def test_adoption_reports_each_step_and_records_a_run(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    run_text(tmp_path, RECIPE, home)
    plan, options = compile_text(tmp_path, RECIPE)
    assert adopt_stages(plan, home, ["count"], "same machine", options.recipe) == [
        StepAdoption("count", "unnecessary")
    ]
    assert len(list_runs(home)) == 1
    with pytest.raises(SelectionError, match="no stage `cout`"):
        adopt_stages(plan, home, ["cout"], "same machine", options.recipe)

    first, second = plan.steps
    parts = {**first.key_parts, "environment": "0" * 64}
    values = {**first.key_values, "environment": {"torch": "0"}}
    newer = first.model_copy(update={"key": "f" * 64, "key_parts": parts, "key_values": values})
    changed = plan.model_copy(update={"steps": (newer, second)})
    (adopted,) = adopt_stages(changed, home, ["count"], "same machine", options.recipe)
    assert adopted.outcome == "adopted"
    assert "same machine" in adopted.reason
    status = read_run_status(home, list_runs(home)[-1])
    assert [step.entry.state for step in status.steps] == ["cached", "skipped"]
    assert status.steps[0].entry.reason == adopted.reason

    other = first.model_copy(update={"key": "e" * 64, "key_parts": {**parts, "params": "0" * 64}})
    (refused,) = adopt_stages(
        plan.model_copy(update={"steps": (other, second)}), home, ["count"], "", options.recipe
    )
    assert refused.outcome == "refused"
    assert "not only the environment differs" in refused.reason
    assert len(list_runs(home)) == 2


def test_the_log_of_a_damaged_product_is_shown(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    run = run_text(tmp_path, RECIPE, home).run
    product = home.store.root / compile_text(tmp_path, RECIPE)[0].step("count").key
    (product / "files" / "count").unlink()
    found = find_log(home, run, "count")
    assert isinstance(found, StepLog)
    assert "".join(read_log(found, follow=True)).endswith("counted\n")
    shutil.rmtree(product)
    missing = find_log(home, run, "count")
    assert isinstance(missing, NoLog)
    assert missing.reason == "the log of `count` is missing"


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_home_whose_only_run_has_no_readable_plan_says_so(tmp_path: Path, is_missing: bool) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    home = Home(tmp_path / "home")
    run = new_run(home, plan, options.recipe)
    (run / "plan.json").unlink() if is_missing else (run / "plan.json").write_text("")
    with pytest.raises(UnknownName, match=f"the plan of the run {run.name} .* is missing or damaged"):
        find_run(home, None)

"""The list: order, filters, pages, what is read again."""

import shutil
from dataclasses import replace

import pytest
from tests.recipe_command import wait_until

from posttrain.runtime.inspection.run_status import list_run_summaries, read_run_status
from posttrain.runtime.report.progress_text import progress_text
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.run_labels import RunLabels, write_labels
from posttrain.runtime.ui import run_index
from posttrain.runtime.ui.run_index import RunIndex, RunQuery


@pytest.fixture
def home(run_builder, make) -> Home:
    """120 runs; every tenth has failed."""
    run_builder.begin(make.step("sft"), make.step("ship", "gate"))
    run_builder.done("sft")
    run_builder.settle("ship", "done", facts={"verdict": "pass"})
    run_builder.end()
    first = run_builder.run
    run_builder.begin(make.step("sft"))
    run_builder.settle("sft", "failed")
    run_builder.end()
    failed = run_builder.run
    for n in range(120):
        shutil.copytree(failed if n % 10 == 0 else first, first.parent / f"20250101-{n:06}-sums")
    shutil.rmtree(first)
    shutil.rmtree(failed)
    return run_builder.home


def test_pages_and_filters(home):
    index = RunIndex([home])
    found = index.select(RunQuery())
    assert [found.fitting, found.total, found.pages, len(found.runs)] == [120, 120, 3, 50]
    assert found.runs[0].place.name == "20250101-000119-sums"
    assert found.runs[0].gates == {"ship": "pass"}
    assert found.runs[0].state == "finished"
    last = index.select(RunQuery(page=99))
    assert [last.page, len(last.runs)] == [3, 20]
    failed = index.select(RunQuery(state="failed"))
    assert failed.fitting == 12
    assert {run.state for run in failed.runs} == {"failed"}
    assert index.select(RunQuery(text="000042-SUMS")).fitting == 1
    assert index.select(RunQuery(home=1)).fitting == 0


def test_runs_are_found_by_their_labels(home, serve):
    index = RunIndex([home])
    run = home.runs / "20250101-000042-sums"
    assert index.select(RunQuery(text="better")).fitting == 0
    write_labels(run, RunLabels(name="the Better one", tags=("wide",), note="see <b>the log</b>"))
    for text in ("better", "wide", "the log"):
        (found,) = index.select(RunQuery(text=text)).runs
        assert found.place.name == run.name
    (run / "labels.json").write_text("[")
    assert index.select(RunQuery(text="better")).fitting == 0
    write_labels(run, RunLabels(name="the Better one", tags=("wide",), note="see <b>the log</b>"))
    page = serve(home.root).get("?text=better")
    assert ">the Better one</a>" in page
    assert "see &lt;b&gt;the log&lt;/b&gt;" in page


def test_homes_are_listed_together(home, tmp_path):
    (tmp_path / "other" / "runs" / "20250101-000050-zz").mkdir(parents=True)
    index = RunIndex([home, Home(tmp_path / "other")])
    names = [run.place.name for run in index.select(RunQuery(page=2)).runs]
    assert "20250101-000050-zz" in names
    assert index.select(RunQuery(home=1)).fitting == 1


def test_only_a_journal_that_changed_is_read_again(home, monkeypatch):
    read: list[str] = []
    original = run_index._read_run

    def record(place, folder):
        read.append(place.name)
        return original(place, folder)

    monkeypatch.setattr(run_index, "_read_run", record)
    index = RunIndex([home])
    index.select(RunQuery())
    assert len(read) == 50
    index.select(RunQuery())
    assert len(read) == 50
    changed = home.runs / "20250101-000119-sums" / "plan.json"
    changed.write_text(changed.read_text() + " ")
    index.select(RunQuery())
    assert read[50:] == ["20250101-000119-sums"]


def test_all_runs_are_read_before_somebody_filters_them(home, serve):
    client = serve(home.root)
    client.get()
    index = client.server.pages.index
    wait_until(lambda: len(index._read) == 120, "the last run", seconds=60)


def test_a_run_is_running_as_long_as_its_client_holds_the_lock(run_builder, make):
    run_builder.begin(make.step("sft"))
    run_builder.work("sft", [("progress", {"done": 3, "total": 9, "unit": "steps"})])
    index = RunIndex([run_builder.home])
    (interrupted,) = index.select(RunQuery()).runs
    assert interrupted.state == "interrupted"
    lock = acquire_lock(run_builder.home.run_lock(run_builder.run))
    (running,) = index.select(RunQuery(state="running")).runs
    assert running.running[0][0] == "sft"
    assert running.running[0][1].startswith("3/9 steps")
    lock.discard()
    (after,) = index.select(RunQuery()).runs
    assert after == replace(interrupted)


def test_the_steps_of_a_client_that_was_killed_do_not_run(run_builder, make):
    """In the list, in `recipe runs` and in `recipe status`, which show no rate of them either."""
    run_builder.begin(make.step("sft"), make.step("check", "script"))
    done = [{"done": count, "total": 100, "unit": "steps"} for count in (1, 40)]
    run_builder.work("sft", [("progress", facts) for facts in done])
    lock = acquire_lock(run_builder.home.run_lock(run_builder.run))
    index = RunIndex([run_builder.home])

    def states() -> tuple[dict[str, int], ...]:
        (listed,), (summary,) = index.select(RunQuery()).runs, list_run_summaries(run_builder.home)
        return dict(listed.steps), dict(summary.steps)

    assert states() == ({"running": 1, "waiting": 1},) * 2
    lock.release()
    assert states() == ({"interrupted": 1, "waiting": 1},) * 2
    (step, *_) = read_run_status(run_builder.home, run_builder.run).steps
    assert step.entry.state == "interrupted"
    assert step.progress is not None
    assert progress_text(step.progress) == "40/100 steps"

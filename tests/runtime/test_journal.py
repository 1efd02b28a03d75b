"""The journal of a run, and the output of `recipe status`."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.executor import execute
from posttrain.runtime.execution.run_context import RunContext
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import DamagedJournal, Journal
from posttrain.runtime.store.runs import list_runs, new_run

RECIPE = """\
recipe: 1
name: costs
stages:
  large: {script: [python3, -c, "import os; x = b'x' * 90_000_000; open(os.environ['OUT'] + '/n', 'w')"]}
  broken: {script: [sh, -c, "exit 3"]}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a plan with an estimate for its first step."""
    folder = tmp_path_factory.mktemp("costs")
    (folder / "recipe.yaml").write_text(RECIPE)
    outcome, _ = compile_file(folder / "recipe.yaml", (), ())
    assert outcome.plan is not None
    first, second = outcome.plan.steps
    plan = outcome.plan.model_copy(
        update={"steps": (first.model_copy(update={"estimate": {"seconds": 90.0, "memory_gb": 2.5}}), second)}
    )
    home = Home(folder / "home")
    run = new_run(home, plan, folder / "recipe.yaml")
    journal = Journal(run / "journal.sqlite")
    around = RunContext(
        home=home, recipe_dir=folder, journal=journal, on_state_change=lambda *_: None, run_name=run.name
    )
    assert execute(plan, around) == {"large": "done", "broken": "failed"}
    journal.close()
    return home.root


def test_status_shows_what_was_expected_beside_what_was_taken(home: Path) -> None:
    text = run_command("status", "--home", home).stdout
    assert text.splitlines()[1].split() == ["step", "state", "took", "expected", "memory", "expected", "why"]
    large = text.splitlines()[2]
    assert "90 s" in large
    assert "2.5 GB" in large


def test_the_peak_is_that_of_the_programs_too_and_is_kept_of_failures(home: Path) -> None:
    status = json.loads(run_command("status", "--home", home, "--format", "json").stdout)
    large, broken = status["steps"]
    assert large["cost"]["peak_memory_mb"] > 85
    assert large["estimate"] == {"seconds": 90.0, "memory_gb": 2.5}
    assert broken["cost"]["peak_memory_mb"] > 1
    assert product_path(home, "large").is_dir()


def test_a_journal_without_estimates_is_still_read(home: Path) -> None:
    (run,) = list_runs(Home(home))
    with sqlite3.connect(run / "journal.sqlite") as db:
        db.execute("ALTER TABLE step DROP COLUMN estimate")
    db.close()
    assert "90 s" not in run_command("status", "--home", home).stdout
    journal = Journal(run / "journal.sqlite")
    assert [entry.estimate for entry in journal.entries()] == [{}, {}]
    journal.close()


def test_runs_stand_in_their_order_whatever_the_clock_says(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Home(home)
    first = list_runs(where)[-1]
    outcome, _ = compile_file(home.parent / "recipe.yaml", (), ())
    assert outcome.plan is not None
    made = [new_run(where, outcome.plan, home)]
    for jump in (-86400 * 365, 86400 * 30, -3600, 0):
        monkeypatch.setattr("time.time", frozen_clock(made[0].stat().st_mtime + jump))
        made.append(new_run(where, outcome.plan, home))
    assert list_runs(where)[-6:] == [first, *made]


def frozen_clock(moment: float) -> Callable[[], float]:
    return lambda: moment


@pytest.mark.parametrize(
    "schema", ["CREATE TABLE other (x)", "CREATE TABLE step (id)", "CREATE TABLE run (x)"]
)
def test_reading_a_database_of_another_program_does_not_change_it(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(schema)
        database.commit()
    before = path.read_bytes()
    with pytest.raises(DamagedJournal):
        Journal(path, read=True)
    assert path.read_bytes() == before


def test_reading_a_journal_of_an_earlier_version_does_not_change_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.add_steps([("sft", "key", {"seconds": 1.0})])
    journal.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE step DROP COLUMN estimate")
        database.commit()
    before = path.read_bytes()
    journal = Journal(path, read=True)
    (entry,) = journal.entries()
    journal.close()
    assert (entry.id, entry.estimate) == ("sft", {})
    assert path.read_bytes() == before

"""`recipe runs` with metrics, filters and sorting, and `recipe label`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.recipe_command import RECIPE_COMMAND
from tests.runtime.report.conftest import RunBuilder, make_step

from posttrain.cli.main import main
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.run_labels import RunLabels, edit_labels, read_labels
from posttrain.runtime.store.runs import list_runs

RECIPE = """recipe: 1
name: steps
description: One program.
stages:
  one: {script: [sh, -c, "echo made > $OUT/made"]}
"""


def recipe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Three runs: two of `sums` with metrics, and one of `other` without."""
    for name, accuracy, tags in (
        ("sums", 0.5, ("sweep",)),
        ("sums", 0.9, ("sweep", "v2")),
        ("other", None, ()),
    ):
        run = RunBuilder(tmp_path / "home")
        run.begin(make_step("check", "eval", params={"n": str(accuracy)}), name=name)
        metric = {"value": accuracy, "low": 0.25, "high": 0.95, "items": 20}
        metrics: dict[str, Any] = {} if accuracy is None else {"accuracy": metric, "odd": "text"}
        run.done("check", metrics=metrics)
        run.end()
        edit_labels(run.home, run.run, lambda _, tags=tags: RunLabels(tags=tags))
    return Home(tmp_path / "home")


def listed(home: Home, *arguments: str) -> list[str | None]:
    """The accuracies of the listed runs."""
    done = recipe("runs", "--home", home.root, "--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    return [run["metrics"].get("check.accuracy", {}).get("value") for run in json.loads(done.output)]


def test_runs_are_listed_with_metrics_and_tags(home: Home) -> None:
    lines = recipe("runs", "--home", home.root).output.splitlines()
    assert "check.accuracy" in lines[0]
    assert "0.900 [0.250, 0.950]" in lines[2]
    assert lines[2].endswith("sweep, v2")
    assert " name " not in lines[0]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), [0.5, 0.9, None]),
        (("--sort=-check.accuracy",), [0.9, 0.5, None]),
        (("--sort", "check.accuracy"), [0.5, 0.9, None]),
        (("--sort=-began",), [None, 0.9, 0.5]),
        (("--sort", "recipe"), [None, 0.5, 0.9]),
        (("--filter", "check.accuracy>=0.9"), [0.9]),
        (("--filter", "check.accuracy < 0.9"), [0.5]),
        (("--filter", "tag=sweep", "--filter", "tag!=v2"), [0.5]),
        (("--filter", "recipe=other"), [None]),
        (("--filter", "state=finished"), [0.5, 0.9, None]),
        (("--filter", "state=failed"), []),
    ],
)
def test_runs_are_filtered_and_sorted(home: Home, arguments: tuple[str, ...], found: list[float]) -> None:
    assert listed(home, *arguments) == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--filter", "check.acuracy>1"), "did you mean `check.accuracy`"),
        (("--sort", "bgan"), "did you mean `began`"),
        (("--filter", "check.accuracy>high"), "`high` is not a number"),
        (("--filter", "state>finished"), "compare it with = or !="),
        (("--filter", "finished"), "expected FIELD=VALUE"),
    ],
)
def test_an_unknown_field_is_misuse(home: Home, arguments: tuple[str, ...], message: str) -> None:
    done = recipe("runs", "--home", home.root, *arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_labels_are_changed_and_found(home: Home) -> None:
    run = list_runs(home)[-1]
    done = recipe(
        "label", run.name, "--home", home.root, "--name", " the  best ", "--tag", "a", "--note", "x\ny"
    )
    assert done.output == f"run   {run.name}\nname  the best\ntags  a\nnote  x\ny\n"
    done = recipe("label", "the best", "--home", home.root, "--tag", "b", "--untag", "a", "--note", "")
    assert (done.exit_code, read_labels(run)) == (0, RunLabels(name="the best", tags=("b",)))
    assert "tags  b" in recipe("label", run, "--home", "/nonexistent").output
    assert listed(home, "--filter", "name=the best") == [None]
    assert recipe("verify", "--home", home.root).exit_code == 0


@pytest.mark.parametrize("tag", ["", "a b", "a=b", "a\x1b[31m", "t" * 300])
def test_labels_that_a_list_cannot_show_are_misuse(home: Home, tag: str) -> None:
    run = list_runs(home)[0]
    assert recipe("label", run.name, "--home", home.root, "--tag", tag).exit_code == 2
    assert read_labels(run).tags == ("sweep",)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"name": 3, "tags": [1, "a"], "note": {}}', '{"name": "a"', "\xff"]
)
def test_damaged_labels_are_empty(home: Home, text: str) -> None:
    run = list_runs(home)[0]
    (run / "labels.json").write_text(text, encoding="latin-1")
    assert read_labels(run).name == ""
    assert recipe("runs", "--home", home.root).exit_code == 0
    assert recipe("label", run.name, "--home", home.root, "--name", "again").exit_code == 0
    assert read_labels(run).name == "again"


def test_labels_of_a_newer_release_are_not_overwritten(home: Home) -> None:
    run = list_runs(home)[0]
    (run / "labels.json").write_text('{"format": 2, "name": "new"}')
    done = recipe("label", run.name, "--home", home.root, "--name", "old")
    assert (done.exit_code, read_labels(run).name) == (2, "new")
    assert "of a newer release" in done.output


def test_edits_at_once_are_both_kept(home: Home) -> None:
    run = list_runs(home)[0]
    command = [*RECIPE_COMMAND, "label", run.name, "--home", str(home.root), "--tag"]
    edits = [subprocess.Popen([*command, f"t{n}"], stdout=subprocess.DEVNULL) for n in range(4)]
    assert [edit.wait(120) for edit in edits] == [0, 0, 0, 0]
    assert set(read_labels(run).tags) == {"sweep", "t0", "t1", "t2", "t3"}


def test_a_run_gets_labels_that_change_no_key(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    home = tmp_path / "home"
    first = recipe("run", tmp_path, "--home", home, "--name", "first one", "--tag", "a", "--note", "text")
    assert first.exit_code == 0, first.output
    second = recipe("run", tmp_path, "--home", home)
    assert "all 1 steps are cached" in second.output
    one, two = list_runs(Home(home))
    assert read_labels(one) == RunLabels(name="first one", tags=("a",), note="text")
    assert not (two / "labels.json").exists()
    assert recipe("run", tmp_path, "--home", home, "--tag", "a b").exit_code == 2

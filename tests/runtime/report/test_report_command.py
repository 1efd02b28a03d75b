import json

import pytest
from click.testing import CliRunner

from posttrain.cli.main import main

RECIPE = """recipe: 1
name: steps
description: Two programs.
stages:
  one: {script: [sh, -c, "echo made > $OUT/made"]}
  two: {script: [sh, -c, "test -s $INPUT_ONE/made && exit STATUS"], inputs: {one: one}}
"""


def recipe(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def finished(run_builder, make):
    run_builder.begin(make.step("sft"))
    run_builder.done("sft", [("metrics", {"step": 1, "values": {"loss": 2.0}})])
    run_builder.end()
    return run_builder


def test_the_report_of_the_newest_run_is_written_into_it(finished):
    done = recipe("report", "--home", finished.home.root)
    assert done.exit_code == 0, done.output
    assert done.output.strip() == str(finished.run / "report.html")
    assert "<h1>sums</h1>" in (finished.run / "report.html").read_text()


def test_a_report_is_written_anew_and_elsewhere_when_asked(finished, tmp_path):
    (finished.run / "report.html").write_text("old")
    there = tmp_path / "new" / "page.html"
    done = recipe("report", "--home", finished.home.root, finished.run.name, "-o", there)
    assert done.output.strip() == str(there)
    assert there.read_text().startswith("<!doctype html>")
    assert (finished.run / "report.html").read_text() == "old"


def test_a_run_that_is_not_there_is_misuse(finished, tmp_path):
    assert recipe("report", "--home", finished.home.root, "1999").exit_code == 2
    assert recipe("report", "--home", tmp_path / "empty").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code", "said"), [(0, 0, "All 2 steps finished."), (3, 1, "two failed")])
def test_every_run_ends_with_its_report(tmp_path, status, code, said):
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("STATUS", str(status)))
    done = recipe("run", tmp_path, "--home", tmp_path / "home")
    assert done.exit_code == code, done.output
    (page,) = (tmp_path / "home" / "runs").glob("*/report.html")
    assert said in page.read_text()


@pytest.mark.slow
def test_a_report_that_cannot_be_written_hides_nothing(tmp_path):
    """A stage creates a folder at the path of the report."""
    home = tmp_path / "home"
    blocked = RECIPE.replace(
        "exit STATUS", f"for run in {home}/runs/*; do mkdir -p $run/report.html/in-the-way; done"
    )
    (tmp_path / "recipe.yaml").write_text(blocked)
    done = recipe("run", tmp_path, "--home", home)
    assert done.exit_code == 0, done.output
    assert "the report could not be written" in done.output
    assert "2 done" in done.output
    status = json.loads(recipe("status", "--home", home, "--format", "json").output)
    assert status["result"] == "finished"

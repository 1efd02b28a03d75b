"""`recipe diff RUN RUN` compares the metrics of the runs."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner
from tests.runtime.comparison.conftest import SAMPLING, ComparisonRun

from posttrain.cli.main import main

Build = Callable[..., ComparisonRun]
OLD = {n: n % 3 != 0 for n in range(30)}
NEW = {n: n % 4 != 0 for n in range(30)}


def diff(*arguments: str | Path) -> str:
    done = CliRunner().invoke(main, ["diff", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_metrics_have_differences_and_paired_intervals(build: Build) -> None:
    base, other = build(OLD), build({**NEW, 1: None}, lr=0.2)
    text = diff(base.run, other.run)
    assert "~ stages.sft.params.learning_rate: 0.1 -> 0.2" in text
    (line,) = [line for line in text.splitlines() if line.startswith("check.accuracy  ")]
    assert line.split()[1:4] == ["0.667", "0.724", "+0.069"]
    assert line.split()[-3:] == ["29", "7", "5"]
    assert 'check.accuracy: 1 item left out, such as row 1: "1+1=" (A: no value in B)' in text
    (metric, _) = json.loads(diff(base.run, other.run, "--format", "json"))["metrics"]
    assert (metric["metric"], metric["paired"]["items"], metric["unpaired_count"]) == ("accuracy", 29, 1)
    assert metric["paired"]["low"] < 2 / 29 < metric["paired"]["high"]


def test_items_of_unequal_evals_are_not_paired(build: Build) -> None:
    other = build(NEW, params={"sampling": {**SAMPLING, "temperature": 1.0}})
    text = diff(build(OLD).run, other.run)
    assert "check is not paired: different sampler: temperature" in text
    assert "+0.067  not paired" in text


def test_equal_plans_with_metrics_and_the_same_run_have_no_difference(build: Build) -> None:
    base, again = build(OLD), build(OLD)
    assert diff(base.run, again.run).endswith("no difference in the recipes\n")
    assert diff(base.run, base.run) == "no difference\n"
    assert json.loads(diff(base.run, base.run, "--format", "json"))["same"] is True
    assert diff(build().run, build().run) == "no difference\n"

"""The line of a finished step: metrics, rates of failures, and the conditions of a gate."""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.report.conftest import make

from posttrain.cli.compile import compile_file
from posttrain.cli.progress_display import ProgressDisplay, _detail

__all__ = ["make"]


def detail_text(**facts: Any) -> str:
    return _detail("cached", {"facts": facts})


def test_an_eval_shows_nonzero_failure_rates():
    metric = {"value": 0.5, "low": 0.4, "high": 0.6}
    line = detail_text(metrics={"right": metric}, unscored=0.175, cut=0.0, timed_out=0.05, failed=0.0)
    assert line == "right 0.500 [0.400, 0.600]  17.5% unscored  5.0% timed out"


def test_a_metric_of_one_item_has_no_interval():
    assert detail_text(metrics={"score": {"value": 2.0, "low": None, "high": None}}) == "score 2.000"


def test_a_gate_shows_its_unmet_conditions():
    passed = {"verdict": "pass", "text": "a", "value": 1.0, "low": 0.9, "high": 1.0}
    failed = {
        "verdict": "fail",
        "text": "check.length at most 6",
        "value": 7.606,
        "low": 7.194,
        "high": 7.868,
    }
    unknown = {"verdict": "inconclusive", "text": "b", "value": None, "low": None, "high": None}
    assert detail_text(verdict="fail", conditions=[passed, failed, unknown]) == (
        "verdict: fail  check.length at most 6: 7.61 [7.19, 7.87]  inconclusive: b"
    )
    assert detail_text(verdict="pass", conditions=[passed]) == "verdict: pass"


def test_rows_are_counted_by_part():
    assert detail_text(**{"rows.all": 41}) == "41 rows"
    assert detail_text(**{"rows.test": 40, "rows.train": 60}) == "40 test rows  60 train rows"


def test_a_queued_step_is_printed_once_with_the_first_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reasons of an engine change often."""
    (tmp_path / "recipe.yaml").write_text(
        "{recipe: 1, name: queue, stages: {work: {script: [sh, -c, 'true']}}}"
    )
    plan = compile_file(tmp_path / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    display = ProgressDisplay(plan, tmp_path)
    for reason in ("", "Slurm: Priority", "Slurm: Resources"):
        display.on_change("work", "queued", {"reason": reason})
    display.on_change("work", "running", {"reason": ""})
    assert capsys.readouterr().out == "~ work  queued  Slurm: Priority\n> work  started\n"


def test_an_unmet_condition_of_a_gate_is_printed_once(
    make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    display = ProgressDisplay(make.plan(make.step("sft"), make.step("ship", "gate")), tmp_path)
    unknown = {"verdict": "inconclusive", "text": "a at least 1", "value": 0.5, "low": 0.25, "high": 1.5}
    display.on_change("sft", "warning", {"reason": "slow"})
    display.on_change(
        "ship", "warning", {"reason": "a at least 1: inconclusive", "advice": "the value is 0.5"}
    )
    facts = {"verdict": "inconclusive", "conditions": [unknown]}
    display.on_change("ship", "done", {"facts": facts, "cost": {"seconds": 1.5}})
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "! sft   warning  slow"
    assert others == ["? ship  done  1.5 s  verdict: inconclusive  a at least 1: 0.5 [0.25, 1.5]"]

"""The line of a finished step: metrics, rates of failures, and the conditions of a gate."""

from typing import Any

from posttrain.cli.progress_display import _detail


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
        "verdict: fail  fail: check.length at most 6: 7.61 [7.19, 7.87]  inconclusive: b"
    )
    assert detail_text(verdict="pass", conditions=[passed]) == "verdict: pass"


def test_rows_are_counted_by_part():
    assert detail_text(**{"rows.all": 41}) == "41 rows"
    assert detail_text(**{"rows.test": 40, "rows.train": 60}) == "40 test rows  60 train rows"

"""The best evaluation and the end of training, from the values of one metric."""

import json
from typing import Any

import pytest

from posttrain.runtime.training.early_stopping import EarlyStopping
from posttrain.spec.step_params.train_params import InLoopEvalOptions


def early_stopping(**changed: Any) -> EarlyStopping:
    defaults: dict[str, Any] = {
        "eval_steps": 1,
        "evals": {},
        "metric_for_best_model": "check.accuracy",
        "greater_is_better": True,
        "early_stopping_threshold": 0.0,
        "early_stopping_patience": None,
        "keep": "best",
    }
    return EarlyStopping(InLoopEvalOptions(**{**defaults, **changed}))


def updates(one: EarlyStopping, *values: float | None) -> list[bool]:
    return [
        one.update(step, {} if value is None else {"check.accuracy": value, "check.other": 1.0})
        for step, value in enumerate(values, 1)
    ]


def test_the_highest_is_the_best_and_the_first_of_equals() -> None:
    one = early_stopping()
    assert updates(one, 0.2, 0.5, 0.5, 0.4, 0.6) == [True, True, False, False, True]
    assert one.best_step == 5
    assert one.facts() == {"best": {"metric": "check.accuracy", "step": 5, "value": 0.6}}


def test_the_lowest_may_be_the_best() -> None:
    assert updates(early_stopping(greater_is_better=False), 0.2, 0.5, 0.1) == [True, False, True]


@pytest.mark.parametrize(("threshold", "better"), [(0.1, [True, False, True]), (0.0, [True, True, True])])
def test_a_gain_must_be_more_than_the_least(threshold: float, better: list[bool]) -> None:
    assert updates(early_stopping(early_stopping_threshold=threshold), 0.5, 0.6, 0.75) == better


def test_training_ends_when_patience_does() -> None:
    one = early_stopping(early_stopping_patience=2)
    ended: list[bool] = []
    for step, value in enumerate([0.5, 0.4, 0.6, 0.6, 0.6], 1):
        one.update(step, {"check.accuracy": value})
        ended.append(one.should_stop)
    assert ended == [False, False, False, False, True]


def test_what_cannot_be_measured_is_no_better() -> None:
    one = early_stopping(early_stopping_patience=2)
    assert updates(one, None, None) == [False, False]
    assert one.should_stop
    assert one.best_step is None


def test_a_later_attempt_knows_what_an_earlier_one_saw() -> None:
    first, second = early_stopping(early_stopping_patience=3), early_stopping(early_stopping_patience=3)
    updates(first, 0.5, 0.4, 0.3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert (second.best_step, second.should_stop) == (1, False)
    assert not second.update(4, {"check.accuracy": 0.5})
    assert second.should_stop


def test_without_a_metric_nothing_follows() -> None:
    one = early_stopping(metric_for_best_model=None, keep="last")
    assert updates(one, 0.5) == [False]
    assert (one.facts(), one.should_stop) == ({}, False)

"""Which evaluation is the best, and when training ends, from the values of one metric."""

import json
from typing import Any

import pytest

from posttrain.runtime.training.course import Course


def course(**given: Any) -> Course:
    usual = {"metric": "check.accuracy", "better": "higher", "gain": 0.0, "patience": None, "keep": "best"}
    return Course({**usual, **given})


def seen(one: Course, *values: float | None) -> list[bool]:
    return [
        one.see(step, {} if value is None else {"check.accuracy": value, "check.other": 1.0})
        for step, value in enumerate(values, 1)
    ]


def test_the_highest_is_the_best_and_the_first_of_equals() -> None:
    one = course()
    assert seen(one, 0.2, 0.5, 0.5, 0.4, 0.6) == [True, True, False, False, True]
    assert one.best == 5
    assert one.facts() == {"best": {"metric": "check.accuracy", "step": 5, "value": 0.6}}


def test_the_lowest_may_be_the_best() -> None:
    assert seen(course(better="lower"), 0.2, 0.5, 0.1) == [True, False, True]


@pytest.mark.parametrize(("gain", "better"), [(0.1, [True, False, True]), (0.0, [True, True, True])])
def test_a_gain_must_be_more_than_the_least(gain: float, better: list[bool]) -> None:
    assert seen(course(gain=gain), 0.5, 0.6, 0.75) == better


def test_training_ends_when_patience_does() -> None:
    one = course(patience=2)
    ended: list[bool] = []
    for step, value in enumerate([0.5, 0.4, 0.6, 0.6, 0.6], 1):
        one.see(step, {"check.accuracy": value})
        ended.append(one.ended)
    assert ended == [False, False, False, False, True]


def test_what_cannot_be_measured_is_no_better() -> None:
    one = course(patience=2)
    assert seen(one, None, None) == [False, False]
    assert one.ended
    assert one.best is None


def test_a_later_attempt_knows_what_an_earlier_one_saw() -> None:
    first, second = course(patience=3), course(patience=3)
    seen(first, 0.5, 0.4, 0.3)
    second.restore(json.loads(json.dumps(first.seen())))
    assert (second.best, second.ended) == (1, False)
    assert not second.see(4, {"check.accuracy": 0.5})
    assert second.ended


def test_without_a_metric_nothing_follows() -> None:
    one = course(metric=None, keep="last")
    assert seen(one, 0.5) == [False]
    assert (one.facts(), one.ended) == ({}, False)

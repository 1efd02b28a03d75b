"""Records behave like frozen dataclasses."""

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from posttrain.spec.record import record, to_builtins


@record
class Point:
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


@record(kw_only=True)
class Named:
    name: str
    tags: Mapping[str, int] = field(default_factory=dict[str, int])
    at: Point = Point(0)


@record(kw_only=True)
class More(Named):
    level: int = 1


def test_fields_are_given_in_order_or_by_name() -> None:
    assert Point(1, 3) == Point(x=1, y=3)
    assert Point(1).sum == 3
    assert [one.name for one in fields(More)] == ["name", "tags", "at", "level"]


def test_equal_records_are_one_key_however_they_were_given() -> None:
    assert hash(Point(y=2, x=1)) == hash(Point(1))
    assert len({Point(1), Point(1, 2), Point(2)}) == 2
    assert Point(1) != Named(name="x")


def test_a_default_that_is_made_is_made_anew() -> None:
    one, other = Named(name="a"), Named(name="b")
    assert one.tags == other.tags
    assert one.tags is not other.tags


def test_replace_leaves_the_rest() -> None:
    changed = replace(More(name="a", level=3), name="b")
    assert (changed.name, changed.level) == ("b", 3)


def test_patterns_take_fields() -> None:
    match Point(1, 5):
        case Point(x, y=5):
            assert x == 1
        case _:
            pytest.fail("the pattern did not match")


def test_records_inside_records_become_plain() -> None:
    assert to_builtins({"it": [More(name="a", tags={"b": 1})]}) == {
        "it": [{"name": "a", "tags": {"b": 1}, "at": {"x": 0, "y": 2}, "level": 1}]
    }


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_records_can_be_copied_and_sent(again: Callable[[Any], Any]) -> None:
    assert again(More(name="a")) == More(name="a")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Point, "Point is missing x"),
        (lambda: Point(1, 2, 3), "keyword arguments only"),
        (lambda: Named("a"), "keyword arguments only"),
        (lambda: Named(name="a", nmae="b"), "no field nmae"),
        (lambda: replace(Point(1), z=1), "no field z"),
    ],
)
def test_what_a_record_does_not_take_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_nothing_is_set_or_deleted_afterwards() -> None:
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert repr(point) == "Point(x=1, y=2)"

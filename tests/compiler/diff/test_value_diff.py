"""Differences between two values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.compiler.diff.value_diff import ABSENT, Difference, value_differences
from posttrain.spec.canonical_json import canonical_json

scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.text("ab", max_size=2)
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=12,
)


@given(trees, trees)
def test_there_is_a_difference_exactly_when_they_are_written_differently(old: Any, new: Any) -> None:
    assert bool(list(value_differences(old, new))) == (canonical_json(old) != canonical_json(new))


@given(trees, trees)
def test_what_stands_at_a_path_is_what_is_told(old: Any, new: Any) -> None:
    for found in value_differences(old, new):
        if found.new is not ABSENT and found.old is not ABSENT:
            assert canonical_json(found.old) != canonical_json(found.new)
        assert found.old is not found.new


@given(trees, trees)
def test_it_is_the_same_both_ways(old: Any, new: Any) -> None:
    there = list(value_differences(old, new))
    back = [Difference(d.path, d.new, d.old) for d in value_differences(new, old)]
    assert there == back


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"a": 1}, {"a": 2}, [(("a",), 1, 2)]),
        ({"a": 1}, {"a": 1, "b": None}, [(("b",), ABSENT, None)]),
        ({"a": True}, {"a": 1}, [(("a",), True, 1)]),
        ({"a": 1}, {"a": 1.0}, [(("a",), 1, 1.0)]),
        ([1, 2, 3], [1, 5, 3], [((1,), 2, 5)]),
        ([1, 2, 3], [1, 3], [((1,), 2, ABSENT)]),
        ([1, 3], [1, 2, 3], [((1,), ABSENT, 2)]),
        ([], [{}], [((0,), ABSENT, {})]),
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, [(("a", "b", 0, "c"), 1, 2)]),
        ({"a": [1]}, {"a": "1"}, [(("a",), [1], "1")]),
    ],
)
def test_paths_go_as_deep_as_the_difference(old: Any, new: Any, found: list[Any]) -> None:
    assert list(value_differences(old, new)) == [Difference(*difference) for difference in found]

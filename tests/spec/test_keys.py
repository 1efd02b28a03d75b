"""Cache keys: different values have different keys, even if they look alike."""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.spec.keys import digest, encode, key_from_parts, key_parts

numbers = st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5])
scalars = st.none() | numbers | st.text("ab", max_size=2)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """A value for which Python's equality makes the same distinctions as keys."""
    if isinstance(value, dict):
        return ("map", frozenset((key, typed(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(typed, value)))
    return (type(value).__name__, value)


@given(trees, trees)
def test_equal_digests_mean_equal_values(left: Any, right: Any) -> None:
    assert (digest(left) == digest(right)) == (typed(left) == typed(right))


@given(trees)
def test_a_digest_is_that_of_the_encoding(value: Any) -> None:
    assert digest(value) == sha256(encode(value)).hexdigest()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (["ab", "c"], ["a", "bc"]),
        (["a", "b"], ["a,b"]),
        ([["a"], "b"], [["a", "b"]]),
        (1, True),
        (1, 1.0),
        (1, "1"),
        (None, "null"),
        (0.0, False),
        ("", None),
        ([], {}),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({"a": None}, {}),
        ("é", "e\u0301"),
        (b"a", "a"),
        ("\udcff", "?"),
    ],
)
def test_what_looks_alike_is_told_apart(left: Any, right: Any) -> None:
    assert digest(left) != digest(right)


def test_the_order_of_a_map_tells_nothing() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert key_from_parts(key_parts({"a": 1, "b": 2})) == key_from_parts(key_parts({"b": 2, "a": 1}))


def test_which_part_has_a_value_tells() -> None:
    assert key_from_parts(key_parts({"a": 1, "b": 2})) != key_from_parts(key_parts({"a": 2, "b": 1}))


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(TypeError, match="a key cannot contain a set"):
        digest({1, 2})

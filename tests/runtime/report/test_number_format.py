import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_decimals,
    format_duration,
    format_number,
    format_short_duration,
    format_signed,
    format_size,
    format_timestamp,
    format_value,
    join_words,
    plural,
)

ODD = [None, "text", math.nan, math.inf, -math.inf, True, [], {}, 10**400]


@pytest.mark.parametrize("value", ODD)
def test_what_is_no_number_is_said_and_never_raises(value):
    assert finite_or_none(value) is None
    for words in (
        format_number,
        format_decimals,
        format_signed,
        format_duration,
        format_short_duration,
        format_timestamp,
        format_size,
        format_value,
    ):
        assert isinstance(words(value), str)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (0.0, "0"),
        (0.12345678, "0.1235"),
        (1234.5678, "1235"),
        (123456.0, "1.23e+05"),
        (1e-7, "1e-07"),
    ],
)
def test_numbers_have_four_digits_that_count(value, words):
    assert format_number(value) == words


def test_numbers_that_are_none_are_told_apart():
    assert (format_number(math.nan), format_number(math.inf), format_number(None)) == (
        "not a number",
        "infinite",
        "\u2013",
    )


@pytest.mark.parametrize(
    ("seconds", "words", "short"),
    [
        (0.04, "0.0 s", "0.0 s"),
        (7.25, "7.2 s", "7.2 s"),
        (59.96, "60.0 s", "60 s"),
        (153, "2 min 33 s", "2.5 min"),
        (3600 * 30, "30 h 00 min", "30 h"),
        (-1, "\u2013", "\u2013"),
    ],
)
def test_times(seconds, words, short):
    assert (format_duration(seconds), format_short_duration(seconds)) == (words, short)


def test_a_moment_is_in_utc_and_beyond_all_calendars_is_none():
    assert format_timestamp(0) == "1970-01-01 00:00:00 UTC"
    assert format_timestamp(1e18) == "\u2013"


def test_lists_are_cut_only_where_that_saves_something():
    names = ["a", "b", "c", "d", "e"]
    assert [join_words(names[:n]) for n in range(1, 6)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and d",
        "a, b, c and 2 more",
    ]


@given(st.integers(0, 10**9))
def test_one_is_singular(count):
    assert plural(count, "step").endswith("s") == (count != 1)

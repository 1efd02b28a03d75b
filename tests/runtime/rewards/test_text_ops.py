"""Property tests of text ops."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posttrain.runtime.rewards.ops.between import Between, extract_between
from posttrain.runtime.rewards.ops.boxed import find_boxes
from posttrain.runtime.rewards.ops.code_block import CodeBlock, extract_code_block
from posttrain.runtime.rewards.ops.in_order import InOrder, in_order
from posttrain.runtime.rewards.ops.json_path import parse_path
from posttrain.runtime.rewards.ops.repetition import Repetition, repetition
from posttrain.runtime.rewards.ops.similarity import lcs_length, similarity
from posttrain.runtime.rewards.text_parsing.json_extraction import JsonNotFoundError, read_json
from posttrain.runtime.rewards.text_parsing.number_parsing import find_numbers, normalize_number, read_number

TAGGED = st.lists(st.sampled_from(["<a>", "</a>", "x", " ", "\n"]), max_size=9).map("".join)
SHORT = st.text("abc", max_size=12)


@given(TAGGED)
def test_between_takes_what_a_lazy_pattern_takes(text: str):
    found = re.search(r"<a>(.*?)</a>", text, re.DOTALL)
    assert extract_between(text, Between(open="<a>", close="</a>", strip=False)) == (
        found[1] if found else None
    )


@given(TAGGED)
def test_the_last_pair_holds_no_opening_tag(text: str):
    found = extract_between(text, Between(open="<a>", close="</a>", pick="last", strip=False))
    assert (found is None) == (re.search("<a>.*</a>", text, re.DOTALL) is None)
    assert found is None or ("<a>" not in found and "</a>" not in found)


@given(
    st.recursive(
        st.text("ab\\ ", max_size=4).map(lambda s: s.replace("\\", "\\{")),
        lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}"),
        max_leaves=6,
    )
)
def test_a_box_gives_back_whatever_balanced_text_is_in_it(inner: str):
    assert find_boxes(f"so \\boxed{{{inner}}} and \\boxed{{2}}") == [inner.strip(), "2"]


@given(st.text("`~\nab ", max_size=40))
def test_a_block_of_code_comes_back_from_its_fence(code: str):
    fence = "`" * (max((len(run) for run in re.findall("`+", code)), default=2) + 3)
    assert extract_code_block(f"see\n{fence}py\n{code}\n{fence}\nthere", CodeBlock()) == code


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["{}", "x = {}", "({})", "about {} of them"]),
)
@example(-0.0, "{}")
def test_a_number_is_found_where_it_was_written(number: float, around: str):
    (found,) = find_numbers(around.format(repr(number)))
    assert float(normalize_number(found)) == number


@given(st.integers(0, 10**15))
def test_thousands_read_as_without_their_commas(number: int):
    assert read_number(f"{number:,}") == number
    assert list(find_numbers(f"{number:,}")) == [f"{number:,}"]


@pytest.mark.parametrize(
    "text", ["1" * 5000, "1," * 50000, "1,111" + ",111" * 50000, "e" * 9999, "." * 9999, "-" * 9999]
)
def test_numbers_of_any_length_are_found_without_delay_or_error(text: str):
    assert all(read_number(found) is None or len(found) <= 1000 for found in find_numbers(text))


@given(SHORT, SHORT)
def test_the_common_subsequence_is_the_longest(left: str, right: str):
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert lcs_length(left, right) == table[-1][-1]


@given(SHORT, SHORT)
def test_similarity_is_a_symmetric_share_and_one_only_for_equal_texts(left: str, right: str):
    share = similarity(left, right)
    assert share == similarity(right, left)
    assert 0 <= share <= 1
    assert (share == 1) == (left == right)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(1, 4))
def test_repetition_counts_the_pieces_that_came_before(words: list[str], size: int):
    pieces = [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
    again = sum(piece in pieces[:place] for place, piece in enumerate(pieces))
    share = repetition(" ".join(words), Repetition(ngram_size=size))
    assert share == pytest.approx(again / len(pieces) if pieces else 0.0, abs=1e-12)


@given(st.lists(st.sampled_from(["<a>", "<b>", "<c>", " ", "x"]), max_size=8).map("".join))
def test_tags_are_in_order_as_a_pattern_says(text: str):
    once = re.fullmatch(
        r"(?s)(?:(?!<[abc]>).)*<a>(?:(?!<[abc]>).)*<b>(?:(?!<[abc]>).)*<c>(?:(?!<[abc]>).)*", text
    )
    assert in_order(text, InOrder(tags=["<a>", "<b>", "<c>"])) == (once is not None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.text("ab: ", max_size=8))
def test_json_is_found_in_the_text_around_it(value: object, around: str):
    written = json.dumps(value)
    assert read_json(written, "whole") == value
    if isinstance(value, dict | list):
        assert read_json(f"{around}{written}{around}", "first") == value


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, '{"a":' * 100_000, "{" * 100_000, "NaN", "1" * 5000, "\x00", "[1,]"]
)
@pytest.mark.parametrize("where", ["whole", "first", "last"])
def test_what_is_no_json_is_told_apart_from_a_fault(text: str, where: str):
    with pytest.raises(JsonNotFoundError):
        read_json(text, where)


@pytest.mark.parametrize(
    ("path", "expected"), [("", []), ("a.b", ["a", "b"]), ('[0]["x y"].z[-2]', [0, "x y", "z", -2])]
)
def test_paths_are_steps(path: str, expected: list[str | int]):
    assert parse_path(path) == expected


@pytest.mark.parametrize("path", ["a..b", "a[", "[x]", "a b", "a[1"])
def test_a_path_that_is_none_is_refused(path: str):
    with pytest.raises(ValueError, match="invalid path at `"):
        parse_path(path)

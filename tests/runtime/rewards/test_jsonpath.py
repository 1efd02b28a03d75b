"""JSONPath queries (RFC 9535): results, errors, and limits."""

import json
from typing import Any

import pytest
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

from posttrain.runtime.rewards.engine.batch import Batch, OpResult
from posttrain.runtime.rewards.jsonpath.bounded_query import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    MAX_SEGMENTS,
    find_values,
    parse_query,
)
from posttrain.runtime.rewards.ops.json_path import JsonPath, check_path, run

GARDEN = {
    "beds": [
        {"plant": "kale", "rows": 4, "tags": ["green", "hardy"]},
        {"plant": "leek", "rows": 7, "tags": []},
        {"plant": "pea", "rows": 4.0, "shade": None, "tags": ["green"]},
    ],
    "a key": {"b\u00e9": True, "'": 1},
}
FINDS = [
    ("$", [GARDEN]),
    ("$.beds[1].plant", ["leek"]),
    ("$['a key']['b\u00e9']", [True]),
    ('$["a key"]["b\\u00e9"]', [True]),
    ("$['a key']['\\'']", [1]),
    ("$.beds[-1].rows", [4.0]),
    ("$.beds[*].plant", ["kale", "leek", "pea"]),
    ("$.beds[0, 2].plant", ["kale", "pea"]),
    ("$.beds[::-1].plant", ["pea", "leek", "kale"]),
    ("$.beds[:2].rows", [4, 7]),
    ("$.beds[5:]", []),
    ("$.beds[::0]", []),
    ("$..tags[0]", ["green", "green"]),
    ("$..rows", [4, 7, 4.0]),
    ("$ .beds\n[ 0 ] ['plant']", ["kale"]),
    ("$.beds[?@.rows == 4].plant", ["kale", "pea"]),
    ("$.beds[?@.rows != 4].plant", ["leek"]),
    ("$.beds[?@.shade].plant", ["pea"]),
    ("$.beds[?!@.shade].plant", ["kale", "leek"]),
    ("$.beds[?@.shade == null].plant", ["pea"]),
    ("$.beds[?@.missing == @.absent].plant", ["kale", "leek", "pea"]),
    ("$.beds[?@.plant < 'l'].plant", ["kale"]),
    ("$.beds[?@.plant > 5]", []),
    ("$.beds[?@.rows > 4 || @.plant == 'pea'].plant", ["leek", "pea"]),
    ("$.beds[?(@.rows >= 4 && !(@.plant == 'kale'))].plant", ["leek", "pea"]),
    ("$.beds[?@.tags[?@ == 'hardy']].plant", ["kale"]),
    ("$.beds[?length(@.tags) == 1].plant", ["pea"]),
    ("$.beds[?count(@.*) > 3].plant", ["pea"]),
    ("$.beds[?match(@.plant, '[a-k].l.')].plant", ["kale"]),
    ("$.beds[?search(@.plant, 'ee')].plant", ["leek"]),
    ("$.beds[?value(@..plant) == 'pea'].rows", [4.0]),
    ("$.beds[?@.plant == $.beds[1].plant].rows", [7]),
    ("$.beds[?search(@.plant, '(')]", []),
    ("$.beds[?@.tags[?@ == $.beds[0].tags[1]]].plant", ["kale"]),
    ("$.beds[*].tags[?count(@) == 1]", ["green", "hardy", "green"]),
]
REFUSED = [
    "", "beds", "$.", "$..", "$beds", "$.beds[", "$.beds[]", "$.beds[01]", "$.beds[-0]",
    "$[9007199254740992]", "$['a", "$['\\x']", "$['\\ud800']", "$. beds", "$.beds[?]", "$[?@.a = 1]",
    "$[?@.a == @.*]", "$[?1]", "$[?'a']", "$[?length(@.a)]", "$[?count(1) == 1]", "$[?match(@.a)]",
    "$[?nothing(@)]", "$[?(@.a]", "$[?@.a == True]", "$.a-b", "$[1:2:3:4]",
    "$[?match(@.a, 'b') == true]", "$[?!(1)]", "$[?!length(@)]", "$[?length(@) && @.a]", "$[?@ == 1e999]",
    "$.a ", "$[?@.a == @.b == @.c]", "$[?!@.a == 1]", "$[?1 == !@.a]", "$[?@.a == (@.b && @.c)]",
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), FINDS)
def test_a_query_finds(query: str, expected: list[object]):
    values = find_values(parse_query(query), GARDEN)
    assert json.dumps(values) == json.dumps(expected)


@pytest.mark.parametrize("query", REFUSED)
def test_a_text_that_is_no_query_is_refused(query: str):
    with pytest.raises(ValueError, match="`"):
        parse_query(query)


def test_a_path_is_checked_in_both_its_forms():
    check_path("$.a[?@.b > 1]")
    check_path("a[0].b")
    with pytest.raises(ValueError, match="unexpected"):
        check_path("$.a.")
    with pytest.raises(ValueError, match="invalid path at `"):
        check_path("a[?@.b > 1]")


def test_true_is_not_one():
    assert find_values(parse_query("$[?@ == 1]"), [1, 1.0, True, "1"]) == [1, 1.0]
    values = [{"a": [1.0]}, {"a": [True]}, {"a": [1]}, {"b": [1]}]
    assert json.dumps(find_values(parse_query("$[?@ == $[2]]"), values)) == '[{"a": [1.0]}, {"a": [1]}]'
    assert json.dumps(find_values(parse_query("$[?@.a != $[2].a]"), values)) == '[{"a": [true]}, {"b": [1]}]'


def test_a_value_exists_whatever_it_is():
    values = [0, "", False, None, [], {}]
    assert find_values(parse_query("$[?@]"), values) == values


WIDE = [[0] * 50 for _ in range(50)]
ITEMS = [{"x": number} for number in range(1500)]
LIMITS = [
    ("$..*..*..*..*", WIDE, f"more than {MAX_NODES:,} values"),
    # Without a limit, these take seconds: a filter in a filter, and comparisons of large values.
    ("$[?$[?@.x == 1499]]", ITEMS, f"more than {MAX_NODES:,} values"),
    ("$[?count($[?@.x > 3]) > 5]", ITEMS, f"more than {MAX_NODES:,} values"),
    ("$[?@ == $[0]]", [[0] * 1000 for _ in range(100)], f"more than {MAX_NODES:,} values"),
    ("$[?search(@, 'b')]", ["a" * 1000] * 300, f"more than {MAX_CHARACTERS:,} characters"),
    ("$[?match(@, 'a{1001}')]", ["a"], "invalid repetition size"),
    ("$[?match('a', $[0])]", ["a" * 600], "longer than 500"),
    (r"$[?match(@, '(a)\\1')]", ["a"], "invalid escape sequence"),
]


@pytest.mark.parametrize(("query", "value", "reason"), LIMITS)
def test_a_query_beyond_a_limit_leaves_the_row_unknown(query: str, value: object, reason: str):
    with pytest.raises(ValueError, match=reason):
        find_values(parse_query(query), value)
    result = evaluated([json.dumps(value), "[[1]]"], query, pick="all")
    assert result.unknown == {0}
    assert reason in (result.reasons[0] or "")
    assert result.reasons[1] is None


def test_the_limits_count_one_evaluation():
    query = parse_query("$..*")
    for _ in range(10):
        assert len(find_values(query, WIDE)) == 2550


NESTED = ["$[?" + "(" * 300 + "@" + ")" * 300 + "]", "$" + "[?@" * 400 + "]" * 400]
NESTED += ["$[?" + "length(" * 250 + "@" + ")" * 250 + " > 1]", "$[?" + "&&".join("@" * 500) + "]"]


@pytest.mark.parametrize("query", NESTED)
def test_a_deeply_nested_query_is_refused(query: str):
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_query(query)


def test_the_segments_of_a_query_have_a_limit():
    levels: Any = []
    for _ in range(MAX_SEGMENTS):
        levels = [levels]
    assert find_values(parse_query("$" + "[0]" * MAX_SEGMENTS), levels) == [[]]
    for count in (MAX_SEGMENTS + 1, 2_000, 100_000):  # 100,000 were a segmentation fault
        with pytest.raises(ValueError, match="more than 64 segments"):
            parse_query("$" + "[0]" * count)


def test_deep_values_are_compared():
    deep = "[" * 900 + "]" * 900
    assert find_values(parse_query("$[?@ == $[1]]"), [json.loads(deep), json.loads(deep)]) != []
    other = json.loads(deep[:900] + "1" + deep[900:])
    assert find_values(parse_query("$[?@ == $[1]]"), [json.loads(deep), other]) == [other]


def test_a_query_at_the_limit_of_depth_is_evaluated():
    levels = MAX_DEPTH - 1
    assert find_values(parse_query("$" + "[?@" * levels + "]" * levels), [0]) == []
    assert find_values(parse_query("$[?" + "&&".join("@" * levels) + "]"), [0]) == [0]
    assert find_values(parse_query("$[?" + "(" * levels + "@" + ")" * levels + "]"), [0]) == [0]


def test_the_search_time_does_not_depend_on_backtracking():
    text = "a" * 5000 + "b"
    assert find_values(parse_query("$[?match(@, '(a|aa)+$')]"), [text]) == []
    assert find_values(parse_query("$[?search(@, '(a|aa)+b')]"), [text]) == [text]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a.b", ["a-b", "a.b", "a\U0001f600b"]),
        ("a[.]b", ["a.b"]),
        (r"\p{Lu}+", ["ABC"]),
        (r"a\nb", ["a\nb"]),
        ("a{2,3}", ["aa", "aaa"]),
        ("a|", ["", "a"]),
        ("(?i)abc", ["ABC"]),  # a pattern of RE2, not of RFC 9485
        ("a.*", ["a-b", "a.b", "a\U0001f600b", "aa", "aaa", "a", "a\ud800"]),
    ],
)
def test_a_pattern_matches_whole_texts(pattern: str, texts: list[str]):
    document = {
        "p": pattern,
        "t": ["a-b", "a.b", "a\nb", "a\U0001f600b", "ABC", "aa", "aaa", "", "a", "a\ud800"],
    }
    assert find_values(parse_query("$.t[?match(@, $.p)]"), document) == texts


def test_a_deep_value_is_no_answer_and_no_crash():
    assert looked("[" * 100_000, "$..*") is None
    assert evaluated(["[" * 900 + "]" * 900], "$..[?@ == 1]", pick="all").values == ["[]"]
    deep = "[" * 900 + "]" * 900
    assert evaluated([f"[{deep}, {deep}]"], "$[?@ == $[1]]").reasons in ([], ["nested too deeply"])


def evaluated(texts: list[str], path: str, **params: str) -> OpResult:
    operands = {"of": texts}
    return run(JsonPath(path=path, **params), operands, Batch(count=len(texts)))


def looked(text: str, path: str) -> object:
    columns = {"completion": [""], "of": [text]}
    graph = compiled_graph(
        {
            "reads": {"completion": "text", "of": "text"},
            "nodes": {"node": {"json_path": {"of": "of", "path": path}}},
            "returns": {"length": "completion"},
        }
    )
    return evaluate_graph(graph, columns).values["node"][0]

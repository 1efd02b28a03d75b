"""JSONPath queries (RFC 9535): results, errors, and limits."""

import json

import pytest
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

from posttrain.runtime.rewards.jsonpath.filter_parser import parse_query
from posttrain.runtime.rewards.jsonpath.query_ast import Query
from posttrain.runtime.rewards.jsonpath.query_evaluator import MAX_NODES, TooManyNodesError, find_values
from posttrain.runtime.rewards.ops.json_path import check_path

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
]
REFUSED = [
    "", "beds", "$.", "$..", "$beds", "$.beds[", "$.beds[]", "$.beds[01]", "$.beds[-0]",
    "$[9007199254740992]", "$['a", "$['\\x']", "$['\\ud800']", "$. beds", "$.beds[?]", "$[?@.a = 1]",
    "$[?@.a == @.*]", "$[?1]", "$[?'a']", "$[?length(@.a)]", "$[?count(1) == 1]", "$[?match(@.a)]",
    "$[?nothing(@)]", "$[?(@.a]", "$[?@.a == True]", "$.a-b", "$[1:2:3:4]",
    "$[?match(@.a, 'b') == true]",
    "$[?((((((((((((((((((((((((((((((((((((((((@))))))))))))))))))))))))))))))))))))))))]", "$.a ",
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
    with pytest.raises(ValueError, match="expected a name"):
        check_path("$.a.")
    with pytest.raises(ValueError, match="invalid path at `"):
        check_path("a[?@.b > 1]")


def test_true_is_not_one():
    assert find_values(parse_query("$[?@ == 1]"), [1, 1.0, True, "1"]) == [1, 1.0]


def test_a_query_stops_where_it_would_look_at_too_much():
    wide = [[0] * 50 for _ in range(50)]
    with pytest.raises(TooManyNodesError, match=f"{MAX_NODES:,}"):
        find_values(parse_query("$..*..*..*..*"), wide)
    assert looked(json.dumps(wide), "$..*..*..*..*") is None


def test_a_pattern_that_backtracks_without_end_matches_nothing():
    assert find_values(parse_query("$[?match(@, '(a|aa)+$')]"), ["a" * 60 + "b"]) == []


def test_a_deep_value_is_no_answer_and_no_crash():
    assert looked("[" * 100_000, "$..*") is None
    deep = "[" * 900 + "]" * 900
    assert looked(f"[{deep}, {deep}]", "$[?@ == $[1]]") in (None, "[]", deep)


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


def test_a_singular_query_is_known_as_one():
    assert isinstance(parse_query("$.a[0]"), Query)
    assert parse_query("$.a[0]").singular
    assert not parse_query("$.a[*]").singular
    assert not parse_query("$..a").singular

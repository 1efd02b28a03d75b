"""Missing values are never treated as zero: how None propagates through a graph."""

from typing import Any

import pytest
from tests.runtime.rewards.reward_compilation import (
    codes,
    compile_yaml_reward,
    compiled_graph,
    evaluate_graph,
)

from posttrain.runtime.rewards.engine.kleene_logic import kleene_all, kleene_any
from posttrain.runtime.rewards.text_parsing import bounded_regex

TRUTHS = [True, False, None]
# Catastrophic backtracking: no engine finds in time that this does not match.
ENDLESS = "(a|aa)+$"


def value_of(node: Any, **reads: Any) -> Any:
    """The value of one node for one row. The column types are those of the values."""
    kinds = {bool: "boolean", str: "text", float: "number", int: "number"}
    types = {name: kinds.get(type(value), "any") for name, value in reads.items()}
    graph = compiled_graph(
        {
            "reads": {"completion": "text", **types},
            "nodes": {"node": node},
            "returns": {"length": "completion"},
        }
    )
    columns = {name: [value] for name, value in reads.items()}
    return evaluate_graph(graph, {"completion": [""], **columns}).values["node"][0]


@pytest.mark.parametrize("of", TRUTHS)
@pytest.mark.parametrize("to", TRUTHS)
def test_all_and_any_are_open_only_where_the_rest_does_not_decide(of: bool | None, to: bool | None):
    outcomes = {
        (a, b)
        for a in ([of] if of is not None else [True, False])
        for b in ([to] if to is not None else [True, False])
    }
    ands, ors = {a and b for a, b in outcomes}, {a or b for a, b in outcomes}
    assert kleene_all([of, to]) == (ands.pop() if len(ands) == 1 else None)
    assert kleene_any([of, to]) == (ors.pop() if len(ors) == 1 else None)
    assert value_of({"all": ["p", "q"]}, p=of, q=to) == kleene_all([of, to])
    assert value_of({"any": ["p", "q"]}, p=of, q=to) == kleene_any([of, to])


@pytest.mark.parametrize("op", ["sum", "product", "min", "max", "mean"])
def test_numbers_made_from_a_missing_one_are_missing(op: str):
    assert value_of({op: ["x", "y"]}, x=None, y=2.0) is None
    assert value_of({op: ["x", "y"]}, x=3.0, y=2.0) is not None


def test_a_mean_may_skip_what_is_missing():
    assert value_of({"mean": {"of": ["x", "y"], "missing": "skip"}}, x=None, y=2.0) == 2.0
    assert value_of({"mean": {"of": ["x", "y"], "missing": "skip"}}, x=None, y=None) is None


def test_choices_hang_on_their_conditions_only():
    assert value_of({"score": {"when": "p", "then": "x"}}, p=None, x=1.0) is None
    assert value_of({"gate": {"of": "x", "when": "p"}}, x=None, p=False) == 0.0
    assert value_of({"gate": {"of": "x", "when": "p"}}, x=None, p=True) is None
    assert value_of({"gate": {"of": "x", "when": "p"}}, x=2.0, p=None) is None
    cases = {"of": [{"when": "p", "then": 1}, {"when": "q", "then": 2}], "otherwise": 3}
    assert value_of({"cases": cases}, p=False, q=True) == 2
    assert value_of({"cases": cases}, p=None, q=True) is None
    assert value_of({"cases": cases}, p=True, q=None) == 1
    steps = {"of": "x", "steps": [{"at_least": 2, "then": 1}], "otherwise": 0}
    assert [value_of({"thresholds": steps}, x=x) for x in (1.9, 2.0, None)] == [0, 1, None]


def test_comparisons_are_open_where_a_bound_is():
    assert value_of({"compare": {"of": "x", "at_least": 1, "below": "y"}}, x=0.5, y=None) is False
    assert value_of({"compare": {"of": "x", "at_least": 1, "below": "y"}}, x=1.5, y=None) is None


def test_text_that_is_not_there_passes_no_test_but_has_no_length():
    tagged = {"between": {"of": "text", "open": "<", "close": ">"}}
    assert value_of({"equal": {"of": tagged, "to": {"text": "a"}}}, text="no tags") is False
    assert value_of({"length": tagged}, text="no tags") is None


def test_a_pattern_that_never_ends_leaves_its_row_unknown():
    reward = {
        "reads": {"completion": "text"},
        "nodes": {
            "found": {
                "regex": {
                    "of": "completion",
                    "pattern": ENDLESS,
                    "max_cpu_seconds": 0.02,
                    "on_timeout": "abstain",
                }
            },
            "cut": {"before": {"of": "found", "separator": "b"}},
            "is_a": {"equal": {"of": "cut", "to": {"text": "a"}}},
            "there": {"present": "found"},
        },
        "returns": {"score": {"when": {"any": ["is_a", "there"]}}},
    }
    scores = evaluate_graph(compiled_graph(reward), {"completion": ["aaa", "a" * 60 + "b", "b"]})
    assert scores.values["found"] == ["aaa", None, None]
    # The second is unknown, the third is absent: only nodes that read the second abstain.
    assert scores.values["there"] == [True, None, False]
    assert scores.values["is_a"] == [False, None, False]
    assert scores.values["returns"] == [1.0, None, 0.0]
    assert scores.reasons["found"][1] == "the pattern exceeded its CPU time"
    assert scores.reasons["is_a"][1] == "an input of this node is unknown"


@pytest.mark.parametrize(("otherwise", "expected"), [("abstain", None), (False, False), (True, True)])
def test_a_test_out_of_time_gives_what_the_recipe_says(otherwise: Any, expected: Any):
    node = {"matches": {"of": "text", "pattern": ENDLESS, "max_cpu_seconds": 0.02, "on_timeout": otherwise}}
    assert value_of(node, text="a" * 60 + "b") is expected


def test_a_text_that_exhausts_a_pattern_pays_no_better_than_one_that_does_not_match():
    nodes = {
        "found": {"regex": {"of": "completion", "pattern": ENDLESS, "max_cpu_seconds": 0.02}},
        "whole": {"matches": {"of": "completion", "pattern": ENDLESS, "max_cpu_seconds": 0.02}},
        "there": {"present": "found"},
    }
    reward = {
        "reads": {"completion": "text"},
        "nodes": nodes,
        "returns": {"score": {"when": {"any": ["there", "whole"]}}},
    }
    scores = evaluate_graph(compiled_graph(reward), {"completion": ["aaa", "a" * 60 + "b", "b"]})
    assert scores.values["returns"] == [1.0, 0.0, 0.0]
    assert scores.reasons["whole"][1] == "the pattern exceeded its CPU time"


def test_a_row_does_not_change_the_result_of_another():
    node = {"matches": {"of": "completion", "pattern": ENDLESS, "max_cpu_seconds": 0.001}}
    graph = compiled_graph({"reads": {"completion": "text"}, "returns": {"score": node}})
    rows = ["a" * (60 + row) + "b" for row in range(300)]
    assert evaluate_graph(graph, {"completion": [*rows, "aaa"]}).values["returns"] == [0.0] * 300 + [1.0]


class FakeClock:
    """A clock of the CPU time of this thread, and a search that takes some of it next to busy threads."""

    def __init__(self, cost: float, busy_threads: int):
        self.cost, self.busy_threads, self.used, self.searches = cost, busy_threads, 0.0, 0

    def thread_time(self) -> float:
        return self.used

    def search(self, pattern: Any, text: str, seconds: float) -> str:
        """Like `regex`: `seconds` limits the CPU time of all threads together."""
        self.searches += 1
        own = min(self.cost, seconds / (1 + self.busy_threads))
        self.used += own
        if own < self.cost:
            raise TimeoutError
        return "found"


@pytest.mark.parametrize("busy_threads", [0, 1, 15, 127])
@pytest.mark.parametrize(
    ("cost", "values", "beyond"), [(0.2, ["found"], {}), (0.3, [None], {0}), (5.0, [None], {0})]
)
def test_busy_threads_do_not_change_what_a_pattern_finds(monkeypatch, busy_threads, cost, values, beyond):
    clock = FakeClock(cost, busy_threads)
    monkeypatch.setattr(bounded_regex.time, "thread_time", clock.thread_time)
    found = bounded_regex.search_texts(bounded_regex.RegexParams(pattern="a"), ["a"], clock.search)
    assert (found.values, found.beyond_limit, found.lost) == (values, frozenset(beyond), frozenset())
    assert clock.searches <= 1 + busy_threads.bit_length()


def test_a_search_without_cpu_time_is_unknown(monkeypatch):
    clock = FakeClock(0.2, 10**9)
    monkeypatch.setattr(bounded_regex.time, "thread_time", clock.thread_time)
    found = bounded_regex.search_texts(bounded_regex.RegexParams(pattern="a"), ["a"], clock.search)
    assert (found.values, found.lost) == ([None], frozenset({0}))
    assert found.reasons() == ["the process was too busy to search the text"]


def test_a_number_that_is_none_is_no_value():
    reward = {
        "reads": {"completion": "text", "x": "number"},
        "returns": {"scale": {"of": "x", "factor": 1e308}},
    }
    scores = evaluate_graph(
        compiled_graph(reward), {"completion": [""] * 4, "x": [float("nan"), float("inf"), 10.0, 1.0]}
    )
    assert scores.values["returns"] == [None, None, None, 1e308]
    assert scores.reasons["returns"][2] == "the value is inf"


def test_a_fallback_must_be_of_the_nodes_type():
    matches = {"matches": {"of": "completion", "pattern": "a", "on_timeout": 3}}
    assert codes(compile_yaml_reward({"reads": {"completion": "text"}, "returns": {"score": matches}})) == [
        "PT0203"
    ]

"""Property tests of value ranges: they contain every value, and are tight for independent operands.

Random graphs use each condition of the data once, so that operands are independent and every combination can
be evaluated.
"""

import itertools
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.rewards.reward_compilation import compile_yaml_reward, evaluate_graph

from posttrain.spec.column_types import Interval

NUMBERS = st.floats(-9, 9).map(lambda number: round(number, 2)) | st.integers(-5, 5).map(float)
CONDITION, NUMBER = "?", "#"  # places of a drawn expression that a read fills


def listed(one: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(one, min_size=1, max_size=3)


def conditions() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.just(CONDITION) | st.just(CONDITION) | st.booleans(),
        lambda inner: st.one_of(
            inner.map(lambda one: {"not": one}),
            listed(inner).map(lambda parts: {"all": parts}),
            listed(inner).map(lambda parts: {"any": parts}),
        ),
        max_leaves=3,
    )


def numbers(*more: Any) -> st.SearchStrategy[Any]:
    """Numeric expressions. `more` builds further ones from inner expressions."""
    leaf = st.one_of(
        NUMBERS,
        st.builds(
            lambda when, then, other: {"score": {"when": when, "then": then, "else": other}},
            conditions(),
            NUMBERS,
            NUMBERS,
        ),
    )
    return st.recursive(
        leaf, lambda inner: st.one_of(combined(inner), *(one(inner) for one in more)), max_leaves=5
    )


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = listed(inner)
    return st.one_of(
        *(parts.map(lambda of, op=op: {op: of}) for op in ("sum", "product", "min", "max", "mean")),
        parts.flatmap(
            lambda of: st.lists(NUMBERS, min_size=len(of), max_size=len(of)).map(
                lambda weights: {"weighted": {"of": of, "weights": weights}}
            )
        ),
        st.builds(
            lambda of, low, span: {"clip": {"of": of, "low": low, "high": low + abs(span)}},
            inner,
            NUMBERS,
            NUMBERS,
        ),
        st.builds(
            lambda of, by, plus: {"scale": {"of": of, "factor": by, "offset": plus}}, inner, NUMBERS, NUMBERS
        ),
        st.builds(
            lambda of, when, other: {"gate": {"of": of, "when": when, "otherwise": other}},
            inner,
            conditions(),
            inner,
        ),
        st.builds(
            lambda when, then, other: {"score": {"when": when, "then": then, "else": other}},
            conditions(),
            inner,
            inner,
        ),
        st.builds(
            lambda rows, other: {
                "cases": {"of": [{"when": w, "then": t} for w, t in rows], "otherwise": other}
            },
            st.lists(st.tuples(conditions(), inner), min_size=1, max_size=2),
            inner,
        ),
    )


def wild(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Ops whose ranges are valid but not always tight."""
    compared = st.builds(
        lambda of, name, to: {"compare": {"of": of, name: to}},
        inner,
        st.sampled_from(["at_least", "above", "at_most", "below", "equal"]),
        inner,
    )
    return st.one_of(
        st.builds(
            lambda when, then, other: {"score": {"when": when, "then": then, "else": other}},
            compared,
            inner,
            inner,
        ),
        st.builds(
            lambda of, rows, other: {
                "thresholds": {
                    "of": of,
                    "steps": [{"at_least": a, "then": t} for a, t in rows],
                    "otherwise": other,
                }
            },
            inner,
            st.lists(st.tuples(inner, inner), min_size=1, max_size=3),
            inner,
        ),
        st.just(NUMBER),
        inner.map(lambda of: {"normalize": {"of": of, "method": "center"}}),
        inner.map(lambda of: {"normalize": {"of": of, "method": "rank"}}),
        st.just({"repetition": {"of": "completion", "ngram_size": 1}}),
        st.just({"length": "completion"}),
    )


def filled(expression: Any, reads: dict[str, str]) -> Any:
    """The expression with a separate column at each placeholder."""
    if expression in (CONDITION, NUMBER):
        name = f"r{len(reads)}"
        reads[name] = "boolean" if expression == CONDITION else "number"
        return name
    if isinstance(expression, dict):
        return {key: filled(value, reads) for key, value in expression.items()}
    return [filled(one, reads) for one in expression] if isinstance(expression, list) else expression


def built(expression: Any) -> tuple[Any, dict[str, str]]:
    """The compiled graph and its columns. A constant reward is an error, so a varying term is added."""
    reads: dict[str, str] = {}
    node = filled(expression, reads)
    reward = {
        "reads": {"completion": "text", **reads},
        "nodes": {"node": {"mean": [node]}},
        "returns": {"length": "completion"},
    }
    found = compile_yaml_reward(reward)
    assert found.graph is not None, found.diagnostics
    return found.graph, reads


def lies_in(value: Any, reach: Interval) -> bool:
    return value is None or reach.low <= float(value) <= reach.high


@settings(max_examples=150)
@given(numbers())
def test_bounds_are_reached_by_independent_parts(expression: Any):
    graph, reads = built(expression)
    truths = list(itertools.product([False, True], repeat=len(reads)))
    if len(truths) > 4096:
        return
    columns = {"completion": [""] * len(truths)}
    columns |= {name: [row[place] for row in truths] for place, name in enumerate(reads)}
    values = evaluate_graph(graph, columns).values["node"]
    reach = graph.ranges["node"]
    assert (min(values), max(values)) == (reach.low, reach.high)


@settings(max_examples=150)
@given(numbers(wild), st.data())
def test_no_value_lies_outside_its_range(expression: Any, data: st.DataObject):
    graph, reads = built(expression)
    count = 12
    draws = {"boolean": st.none() | st.booleans(), "number": st.none() | NUMBERS}
    columns = {
        name: data.draw(st.lists(draws[type], min_size=count, max_size=count)) for name, type in reads.items()
    }
    texts = st.none() | st.text("ab ", max_size=9)
    columns["completion"] = data.draw(st.lists(texts, min_size=count, max_size=count))
    scores = evaluate_graph(graph, columns, groups=[row // 4 for row in range(count)])
    for node, values in scores.values.items():
        assert all(lies_in(value, graph.ranges[node]) for value in values), node


@given(st.lists(st.tuples(NUMBERS, st.floats(0, 5)), min_size=1, max_size=6))
def test_sums_and_products_of_intervals_hold_their_corners(given_parts: list[tuple[float, float]]):
    parts = [Interval(low, low + span) for low, span in given_parts]
    for corners in itertools.product(*((part.low, part.high) for part in parts)):
        total, product = Interval(0.0, 0.0), Interval(1.0, 1.0)
        sum_, prod = 0.0, 1.0
        for part, corner in zip(parts, corners, strict=True):
            total, product = total.plus(part), product.times(part)
            sum_, prod = sum_ + corner, prod * corner
        assert total.low <= sum_ <= total.high
        assert product.low <= prod <= product.high


Pair = tuple[float, float]
PAIRS = st.tuples(st.integers(-2, 2).map(float), st.integers(-2, 2).map(float))


def score_of(pair: Pair, when: str) -> dict[str, Any]:
    return {"score": {"when": when, "then": pair[0], "else": pair[1]}}


BOUNDS = st.sampled_from(["at_least", "above", "at_most", "below", "equal"])


@settings(max_examples=100)
@given(PAIRS, PAIRS, BOUNDS)
def test_a_comparison_is_known_where_all_values_agree_on_it(
    of: tuple[float, float], to: tuple[float, float], bound: str
):
    graph, _ = built({"compare": {"of": score_of(of, CONDITION), bound: score_of(to, CONDITION)}})
    truths = list(itertools.product([False, True], repeat=2))
    columns = {"completion": [""] * 4, "r0": [p for p, _ in truths], "r1": [q for _, q in truths]}
    values = evaluate_graph(graph, columns).values["node.of.0"]
    reach = graph.ranges["node.of.0"]
    assert reach.low <= min(values) <= max(values) <= reach.high
    if bound != "equal" or len({*of, *to}) == 1:  # values of two overlapping ranges may be equal
        assert (reach.low, reach.high) == (min(values), max(values))


@settings(max_examples=100)
@given(PAIRS, st.lists(st.tuples(st.integers(-2, 2), st.integers(1, 9)), min_size=1, max_size=3))
def test_a_step_that_is_called_unreachable_is_never_taken(
    of: tuple[float, float], steps: list[tuple[int, int]]
):
    thens = {100 + place: level for place, (level, _) in enumerate(steps)}
    rows = [{"at_least": level, "then": then} for then, level in thens.items()]
    node = {"thresholds": {"of": score_of(of, "p"), "steps": rows, "otherwise": 99}}
    reads = {"completion": "text", "p": "boolean"}
    found = compile_yaml_reward(
        {"reads": reads, "nodes": {"node": node}, "returns": {"length": "completion"}}
    )
    assert found.graph is not None
    taken = evaluate_graph(found.graph, {"completion": ["", ""], "p": [True, False]}).values["node"]
    reach = found.graph.ranges["node"]
    assert all(reach.low <= value <= reach.high for value in taken)
    expected = [next((then for then, level in thens.items() if value >= level), 99) for value in of]
    assert taken == expected
    unreached = sum(diagnostic.code == "PT0511" for diagnostic in found.diagnostics)
    assert unreached <= len(steps) + 1 - len(set(taken))


def test_unbounded_parts_have_unbounded_sums_but_bounded_clips():
    reads = {"completion": "text"}
    open_ended = compile_yaml_reward(
        {
            "reads": reads,
            "returns": {"scale": {"of": {"length": "completion"}, "factor": -0.5, "offset": 1.0}},
        }
    )
    assert open_ended.graph is not None
    assert open_ended.graph.range == Interval(-math.inf, 1.0)
    held = compile_yaml_reward(
        {"reads": reads, "returns": {"clip": {"of": {"length": "completion"}, "high": 9}}}
    )
    assert held.graph is not None
    assert held.graph.range == Interval(0.0, 9.0)

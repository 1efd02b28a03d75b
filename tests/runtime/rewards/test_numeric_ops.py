"""The values of ops that combine numbers and conditions."""

from typing import Any

import pytest
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

X = [-2.0, 0.0, 1.0, 4.0]


def x(**bounds: float) -> dict[str, Any]:
    """A condition on the column."""
    return {"compare": {"of": "x", **bounds}}


STEPS = [{"at_least": 4, "then": "x"}, {"at_least": 0, "then": 2}]
CASES: list[tuple[Any, list[Any]]] = [
    ({"sum": ["x", 1, "x"]}, [-3.0, 1.0, 3.0, 9.0]),
    ({"weighted": {"of": ["x", 1], "weights": [2, -0.5]}}, [-4.5, -0.5, 1.5, 7.5]),
    ({"product": ["x", "x", -1]}, [-4.0, 0.0, -1.0, -16.0]),
    ({"min": ["x", 1]}, [-2.0, 0.0, 1.0, 1.0]),
    ({"max": ["x", 1]}, [1.0, 1.0, 1.0, 4.0]),
    ({"mean": ["x", 1, 2]}, [1 / 3, 1.0, 4 / 3, 7 / 3]),
    ({"clip": {"of": "x", "low": -1, "high": 3}}, [-1.0, 0.0, 1.0, 3.0]),
    ({"clip": {"of": "x", "high": 0}}, [-2.0, 0.0, 0.0, 0.0]),
    ({"scale": {"of": "x", "factor": 2, "offset": -1}}, [-5.0, -1.0, 1.0, 7.0]),
    ({"score": {"when": x(above=0), "then": "x", "else": -9}}, [-9.0, -9.0, 1.0, 4.0]),
    ({"gate": {"of": "x", "when": x(at_most=0)}}, [-2.0, 0.0, 0.0, 0.0]),
    ({"gate": {"of": "x", "when": {"not": x(equal=1)}, "otherwise": 7}}, [-2.0, 0.0, 7.0, 4.0]),
    (x(at_least=0, below=4), [False, True, True, False]),
    ({"all": [x(above=-3), x(above=0)]}, [False, False, True, True]),
    ({"any": [x(above=3), x(below=0)]}, [True, False, False, True]),
    (
        {"cases": {"of": [{"when": x(above=3), "then": 1}, {"when": x(above=0), "then": 2}], "otherwise": 3}},
        [3.0, 3.0, 2.0, 1.0],
    ),
    ({"thresholds": {"of": "x", "steps": STEPS, "otherwise": 3}}, [3.0, 2.0, 2.0, 4.0]),
    ({"normalize": "x"}, [-2.75, -0.75, 0.25, 3.25]),
    ({"normalize": {"of": "x", "method": "rank"}}, [0.0, 1 / 3, 2 / 3, 1.0]),
]


@pytest.mark.parametrize("case", CASES, ids=[str(next(iter(node))) for node, _ in CASES])
def test_a_combination_gives_what_its_name_says(case: tuple[Any, list[Any]]):
    node, expected = case
    reads = {"completion": "text", "x": "number"}
    graph = compiled_graph({"reads": reads, "nodes": {"node": node}, "returns": {"length": "completion"}})
    found = evaluate_graph(graph, {"completion": [""] * 4, "x": X}, groups=[0] * 4).values["node"]
    assert found == pytest.approx(expected)
    assert [isinstance(one, bool) for one in found] == [isinstance(one, bool) for one in expected]

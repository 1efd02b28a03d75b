"""The evaluation of graphs: distinct rows, concurrent slow nodes, and groups."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.graph import Graph
from posttrain.runtime.rewards.engine.nodes import Node
from posttrain.runtime.training.reward_function import prompt_groups, score_statistics

METHODS = ("center", "zscore", "rank")


def slow(id: str, run: Any, *reads: str, needs: Sequence[str] = ()) -> Node:
    operands: dict[str, Any] = {name: {"node" if name in needs else "read": name} for name in reads}
    return Node(id=id, run=run, params=None, operands=operands, needs=frozenset(needs), slow=True)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from("xy")), min_size=1, max_size=12))
def test_a_slow_node_is_asked_once_for_equal_rows(rows: list[tuple[str, str | None]]):
    asked: list[tuple[str, str | None]] = []

    def run(params: None, operands: Operands, batch: Batch) -> OpResult:
        pairs = list(zip(operands["completion"], operands["to"], strict=True))
        assert len(pairs) == batch.count
        asked.extend(pairs)
        return OpResult(values=[f"{of}{to}" for of, to in pairs], reasons=[f"saw {of}" for of, _ in pairs])

    nodes = (slow("n", run, "completion", "to"), one("r"))
    graph = Graph(reads={"completion": "text", "to": "text"}, nodes=nodes, returns="r")
    scores = graph.evaluate({"completion": [of for of, _ in rows], "to": [to for _, to in rows]})
    assert scores.values["n"] == [f"{of}{to}" for of, to in rows]
    assert scores.reasons["n"] == [f"saw {of}" for of, _ in rows]
    assert asked == list(dict.fromkeys(rows))


def one(id: str) -> Node:
    return Node(
        id=id,
        run=lambda params, operands, batch: [1.0] * batch.count,
        params=None,
        operands={},
        needs=frozenset(),
    )


def test_rows_of_messages_are_compared_by_what_they_hold():
    asked: list[Any] = []

    def run(params: None, operands: Operands, batch: Batch) -> list[float]:
        asked.extend(operands["turns"])
        return [1.0] * batch.count

    graph = Graph(reads={"turns": "messages"}, nodes=(slow("n", run, "turns"),), returns="n")
    said = [{"role": "user", "content": "hello"}]
    assert graph.evaluate({"turns": [said, [dict(said[0])], []]}).values["n"] == [1.0] * 3
    assert asked == [said, []]


def test_slow_nodes_that_do_not_need_each_other_run_at_the_same_time():
    import threading

    together = threading.Barrier(3, timeout=120)  # the barrier breaks unless all three run at the same time

    def run(params: None, operands: Operands, batch: Batch) -> list[float]:
        together.wait()
        return [1.0] * batch.count

    def after(params: None, operands: Operands, batch: Batch) -> list[float]:
        return [sum(row) for row in zip(*operands.values(), strict=True)]

    nodes = [slow(name, run, "completion") for name in "abc"]
    last = slow("sum", after, "a", "b", "c", needs=("a", "b", "c"))
    graph = Graph(reads={"completion": "text"}, nodes=(last, *nodes), returns="sum")
    assert graph.evaluate({"completion": ["x", "y"]}).values["sum"] == [3.0, 3.0]


def test_a_fault_names_its_node_and_ends_the_others():
    def run(params: None, operands: Operands, batch: Batch) -> list[float]:
        raise StepError("the server is gone", "start it")

    graph = Graph(
        reads={"completion": "text"}, nodes=(slow("judged", run, "completion"), one("r")), returns="r"
    )
    with pytest.raises(StepError, match="node `judged`: the server is gone") as raised:
        graph.evaluate({"completion": ["x"]})
    assert raised.value.advice == "start it"


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.none() | st.floats(-9, 9).map(lambda x: round(x, 3))),
        min_size=1,
        max_size=15,
    )
)
def test_normalized_values_are_relative_to_their_group(rows: list[tuple[int, float | None]]):
    reward = {
        "reads": {"completion": "text", "x": "number"},
        "nodes": {method: {"normalize": {"of": "x", "method": method}} for method in METHODS},
        "returns": {"length": "completion"},
    }
    groups = [group for group, _ in rows]
    columns = {"completion": [""] * len(rows), "x": [x for _, x in rows]}
    values = evaluate_graph(compiled_graph(reward), columns, groups).values
    for group in set(groups):
        own = [place for place, (of, x) in enumerate(rows) if of == group and x is not None]
        given_values = [rows[place][1] for place in own]
        assert sum(values["center"][place] for place in own) == pytest.approx(0, abs=1e-9)
        assert all(0 <= values["rank"][place] <= 1 for place in own)
        for method in METHODS:  # the order is preserved
            pairs = sorted(zip(given_values, (values[method][place] for place in own), strict=True))
            assert [b for _, b in pairs] == sorted(b for _, b in pairs)
        squares = [values["zscore"][place] ** 2 for place in own]
        assert not own or sum(squares) / len(own) == pytest.approx(1 if len(set(given_values)) > 1 else 0)
    missing = [place for place, (_, x) in enumerate(rows) if x is None]
    assert all(values[method][place] is None for method in METHODS for place in missing)


def test_normalizing_without_prompts_is_refused():
    graph = compiled_graph(
        {"reads": {"completion": "text"}, "returns": {"normalize": {"length": "completion"}}}
    )
    with pytest.raises(StepError, match="the rows have no prompts"):
        evaluate_graph(graph, {"completion": ["a"]})


def test_rows_of_one_prompt_make_a_group():
    turn = [{"role": "user", "content": "a"}]
    assert prompt_groups(["a", "a", "b", "a"]) == [0, 0, 1, 2]
    assert prompt_groups([turn, list(turn), [], []]) == [0, 0, 1, 1]
    assert prompt_groups([]) == []


def test_what_a_batch_gave_is_summed_up_by_node():
    reward = {
        "reads": {"completion": "text", "x": "number"},
        "nodes": {"there": {"present": "completion"}, "half": {"scale": {"of": "x", "factor": 0.5}}},
        "returns": {"gate": {"of": "half", "when": "there"}},
    }
    graph = compiled_graph(reward)
    ready = Graph.from_plan(graph.step_params())
    scores = ready.evaluate({"completion": ["a", "b", "", "d"], "x": [2.0, 4.0, None, None]})
    assert score_statistics(ready, scores) == {
        "reward/there": 0.75,
        "reward_std/there": pytest.approx(0.75**0.5 / 2),
        "reward/half": 1.5,
        "reward_std/half": 0.5,
        "unscored/half": 0.5,
        "reward/returns": 1.0,
        "reward_std/returns": pytest.approx((2 / 3) ** 0.5),
        "unscored": 0.25,
    }


def test_a_column_of_the_data_may_be_the_reward():
    graph = compiled_graph({"reads": {"completion": "text", "x": "number"}, "returns": "x"})
    assert evaluate_graph(graph, {"completion": ["a", "b"], "x": [1.0, None]}).values == {"x": [1.0, None]}

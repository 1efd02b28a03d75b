"""The legs and searches of a recipe repeat work, which is done once, with the same result."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.compiler.memory.test_memory_estimate import H100, workloads

from posttrain.compiler.data import sql
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.training_memory import resident_terms, training_phases
from posttrain.compiler.placement.placement_search import PlacementConstraints, choose_placement
from posttrain.compiler.placement.stage_workload import StageRequirements


def test_a_query_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"rows": {"question": "text", "score": "number"}}
    query = "SELECT *, score * 2 AS doubled FROM rows"
    expected = {"question": "text", "score": "number", "doubled": "number"}
    first = sql.bind(query, tables)
    assert first == expected
    first["added by a caller"] = "text"
    with monkeypatch.context() as patch:
        patch.setattr(sql, "database", _no_connection)
        assert sql.bind(query, tables) == expected
    assert sql.bind(query, {"rows": {"score": "integer"}}) == {"score": "integer", "doubled": "integer"}


def _no_connection() -> Any:
    raise AssertionError("DuckDB is asked again")


@given(workloads())
def test_the_memory_of_an_optimizer_step_is_the_same_for_all_rollouts(workload: Any) -> None:
    without = replace(workload, rollout=None)
    assert resident_terms(workload) == resident_terms(without)
    always = resident_terms(workload)
    assert training_phases(workload, always) == training_phases(without, always)


def test_stages_that_differ_in_their_steps_are_placed_once() -> None:
    shape = find_shape("Qwen/Qwen3-8B")
    assert shape is not None
    stage = StageRequirements(
        model=shape,
        length=2048,
        prompt_tokens=0,
        batch_size=16,
        rows_per_example=1,
        loss="chunked",
        adapter=None,
        trained_parameters=None,
        frozen=(),
        value_model=None,
        element_size=2,
        autocast=True,
        completions_per_step=0,
        steps=3,
        row_count_note="",
    )
    constraints = PlacementConstraints(processes=8)
    assert H100 is not None
    placed = choose_placement(stage, constraints, H100, True)
    longer = stage._replace(steps=1000, row_count_note="about 16000 rows")
    assert choose_placement(longer, constraints, H100, True) is placed

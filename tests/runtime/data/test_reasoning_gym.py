"""The source `reasoning_gym` and the scores of its graders. The package is not a locked dependency."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_service
from tests.runtime.data.build_datasets import BuiltDatasets, compile_datasets, plan_datasets
from tests.runtime.rewards.reward_compilation import compiled_graph, evaluate_graph

from posttrain.runtime.errors import StepError

GRADED = {
    "reads": {"completion": "text", "task": "any"},
    "returns": {"reasoning_gym": {"of": "completion", "task": "task"}},
}


def source(**params: Any) -> dict[str, Any]:
    return {"it": {"from": {"reasoning_gym": {"count": 20, **params}}}}


def test_columns_and_rows_are_known_when_the_recipe_is_compiled():
    step = plan_datasets(source(task="chain_sum")).step("datasets.it")
    assert step.params["columns"] == {"prompt": "text", "answer": "text", "task": "any"}
    short = source(task="chain_sum")
    short["it"]["steps"] = [{"split": {"test": 20}}]
    assert [d.code for d in compile_datasets(short).diagnostics] == ["PT0406"]
    (found,) = compile_datasets(source(task="codeio")).diagnostics
    assert "the task `codeio` is not supported" in found.message


def test_tasks_are_made_from_the_seed_and_graded_by_the_package(tmp_path: Path):
    require_service("reasoning-gym", find_spec("reasoning_gym"), "pip install reasoning-gym", apart=True)
    built = BuiltDatasets(tmp_path, source(task="chain_sum", seed=5, config={"max_terms": 3}))
    again = BuiltDatasets(
        tmp_path / "again", source(task="chain_sum", seed=5, count=7, config={"max_terms": 3})
    )
    rows = built.rows("it")
    assert [row["prompt"] for row in rows[:7]] == [row["prompt"] for row in again.rows("it")]
    assert json.loads(rows[3]["task"])["place"] == 3
    columns = {"completion": [row["answer"] for row in rows], "task": [row["task"] for row in rows]}
    assert evaluate_graph(compiled_graph(GRADED), columns).values["returns"] == [1.0] * 20
    columns["completion"] = ["no idea", None, *columns["completion"][2:]]
    assert evaluate_graph(compiled_graph(GRADED), columns).values["returns"] == [0.0, 0.0] + [1.0] * 18


@pytest.mark.parametrize("params", [{"task": "no_such_task"}, {"task": "chain_sum", "config": {"terms": 3}}])
def test_a_task_that_cannot_be_made_ends_the_step(tmp_path: Path, params: dict[str, Any]):
    require_service("reasoning-gym", find_spec("reasoning_gym"), "pip install reasoning-gym", apart=True)
    with pytest.raises(StepError, match=f"cannot generate `{params['task']}`"):
        BuiltDatasets(tmp_path, source(**params))

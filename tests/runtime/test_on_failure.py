"""`on_failure: continue`: steps that do not depend on the failed step still run."""

import json
from pathlib import Path

import pytest
from tests.recipe_command import run_command

RECIPE = """
recipe: 1
name: apart
models:
  base: {init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2},
      tokenizer: {init: characters}}
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 20}}}
  torn: {from: {files: {path: torn.parquet, columns: {prompt: text, completion: text}}}}
  unique: {from: torn, steps: [{dedup: [prompt]}]}
stages:
  first: {train: sft, model: base, data: unique, params: {max_steps: 1, batch_size: 2}, on_failure: FIRST}
  second: {train: sft, model: base, data: sums, params: {max_steps: 1, batch_size: 2}, on_failure: continue}
"""


def write_recipe(folder: Path, first: str) -> Path:
    (folder / "recipe.yaml").write_text(RECIPE.replace("FIRST", first))
    (folder / "torn.parquet").write_bytes(b"PAR1 and then something else")
    return folder


def planned_on_failure(folder: Path) -> dict[str, str]:
    planned = run_command("plan", folder, "--format", "json", "--home", folder / "home")
    return {step["id"]: step.get("on_failure", "stop") for step in json.loads(planned.stdout)["steps"]}


def test_what_a_stage_is_made_from_fails_as_the_stage_does(tmp_path: Path) -> None:
    lenient = planned_on_failure(write_recipe(tmp_path, "continue"))
    assert set(lenient.values()) == {"continue"}
    strict = planned_on_failure(write_recipe(tmp_path, "stop"))
    assert {id for id, how in strict.items() if how == "stop"} == {
        *("models.base", "datasets.torn", "datasets.unique", "first")
    }


@pytest.mark.slow
def test_data_that_cannot_be_read_leaves_the_other_stage_alone(tmp_path: Path) -> None:
    ended = run_command("run", write_recipe(tmp_path, "continue"), "--home", tmp_path / "home")
    assert ended.returncode == 1
    states = {
        line.split()[1]: line.split()[0]
        for line in ended.stdout.splitlines()
        if line[:2] in ("x ", "+ ", "- ")
    }
    assert states["datasets.torn"] == "x"
    assert states["second"] == "+"

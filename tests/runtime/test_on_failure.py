"""`on_failure: continue`: what does not depend on a failed step is carried out all the same."""

import json
from pathlib import Path

import pytest
from tests.recipe_command import call

RECIPE = """
recipe: 1
name: apart
models:
  base: {init: {family: qwen2, layers: 1, hidden: 32, heads: 2}, tokenizer: {init: characters}}
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 20}}}
  torn: {from: {files: {path: torn.parquet, columns: {prompt: text, completion: text}}}}
  mended: {from: torn, steps: [{dedup: [prompt]}]}
stages:
  first: {train: sft, model: base, data: mended, params: {steps: 1, batch: 2}, on_failure: FIRST}
  second: {train: sft, model: base, data: sums, params: {steps: 1, batch: 2}, on_failure: continue}
"""


def laid_out(folder: Path, first: str) -> Path:
    (folder / "recipe.yaml").write_text(RECIPE.replace("FIRST", first))
    (folder / "torn.parquet").write_bytes(b"PAR1 and then something else")
    return folder


def planned(folder: Path) -> dict[str, str]:
    told = call("plan", folder, "--format", "json", "--home", folder / "home")
    return {step["id"]: step.get("on_failure", "stop") for step in json.loads(told.stdout)["steps"]}


def test_what_a_stage_is_made_from_fails_as_the_stage_does(tmp_path: Path) -> None:
    lenient = planned(laid_out(tmp_path, "continue"))
    assert set(lenient.values()) == {"continue"}
    strict = planned(laid_out(tmp_path, "stop"))
    assert {id for id, how in strict.items() if how == "stop"} == {
        *("models.base", "datasets.torn", "datasets.mended", "first")
    }


@pytest.mark.slow
def test_data_that_cannot_be_read_leaves_the_other_stage_alone(tmp_path: Path) -> None:
    ended = call("run", laid_out(tmp_path, "continue"), "--home", tmp_path / "home")
    assert ended.returncode == 1
    states = {
        line.split()[1]: line.split()[0]
        for line in ended.stdout.splitlines()
        if line[:2] in ("x ", "+ ", "- ")
    }
    assert states["datasets.torn"] == "x"
    assert states["second"] == "+"

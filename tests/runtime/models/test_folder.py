"""A model from a folder beside the recipe, through a whole run."""

import json
import shutil
from pathlib import Path

import pytest
from tests.recipe_command import call, digests, product

AGAIN = """
recipe: 1
name: again
models:
  mine: {from: ./mine}
stages:
  export: {export: mine}
"""
FIRST = """
recipe: 1
name: first
models:
  base:
    init: {family: qwen2, layers: 1, hidden: 32, heads: 2, context: 64}
    tokenizer: {init: characters, words: [<answer>, </answer>]}
stages:
  export: {export: base}
"""


@pytest.mark.slow
def test_a_folder_that_was_exported_is_a_model_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name, text in (("first", FIRST), ("again", AGAIN)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(text)
    ran = call("run", tmp_path / "first", "--home", home)
    assert ran.returncode == 0, ran.stderr
    made = product(home, "export")
    shutil.copytree(made, tmp_path / "again" / "mine")
    ran = call("run", tmp_path / "again", "--home", home)
    assert ran.returncode == 0, ran.stderr
    weights = "model.safetensors"
    assert digests(product(home, "export"))[weights] == digests(made)[weights]


@pytest.mark.slow
def test_other_weights_in_the_folder_are_another_model(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(AGAIN)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    keys: set[str] = set()
    for content in (b"one", b"two"):
        (tmp_path / "mine" / "model.safetensors").write_bytes(content)
        planned = call("plan", tmp_path, "--format", "json", "--home", tmp_path / "home")
        assert planned.returncode == 0, planned.stderr
        keys |= {step["key"] for step in json.loads(planned.stdout)["steps"]}
    assert len(keys) == 4

"""A model from a folder next to the recipe, through a whole run."""

import json
import shutil
from pathlib import Path

import pytest
from tests.recipe_command import file_digests, product_path, run_command

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
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 64}
    tokenizer: {init: characters, added_tokens: [<answer>, </answer>]}
stages:
  export: {export: base}
"""


@pytest.mark.slow
def test_a_folder_that_was_exported_is_a_model_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name, text in (("first", FIRST), ("again", AGAIN)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(text)
    ran = run_command("run", tmp_path / "first", "--home", home)
    assert ran.returncode == 0, ran.stderr
    made = product_path(home, "export")
    shutil.copytree(made, tmp_path / "again" / "mine")
    ran = run_command("run", tmp_path / "again", "--home", home)
    assert ran.returncode == 0, ran.stderr
    weights = "model.safetensors"
    assert file_digests(product_path(home, "export"))[weights] == file_digests(made)[weights]


@pytest.mark.slow
def test_other_weights_in_the_folder_are_another_model(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(AGAIN)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    keys: set[str] = set()
    for content in (b"one", b"two"):
        (tmp_path / "mine" / "model.safetensors").write_bytes(content)
        planned = run_command("plan", tmp_path, "--format", "json", "--home", tmp_path / "home")
        assert planned.returncode == 0, planned.stderr
        keys |= {step["key"] for step in json.loads(planned.stdout)["steps"]}
    assert len(keys) == 4

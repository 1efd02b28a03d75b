"""Files that exist but are not read: links out of the folder, broken links, folders."""

from pathlib import Path

import pytest
from tests.recipe_command import run_command

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE

ROWS = '{"prompt": "1+1", "completion": "2", "answer": "2"}\n' * 200
DATA = MINIMAL_RECIPE.replace("arithmetic: {digits: 2, count: 200}", "files: rows.jsonl")
BASE = "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n"
TEMPLATE = MINIMAL_RECIPE.replace("{init: characters}", "{init: characters}\n    chat_template: rows.jinja")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outside.jsonl").write_text(ROWS)
    inside = tmp_path / "recipe"
    inside.mkdir()
    return inside


def message_of(folder: Path, recipe: str) -> str:
    (folder / "recipe.yaml").write_text(recipe)
    ended = run_command("validate", folder)
    assert ended.returncode == 1, ended.stdout
    return ended.stderr


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (DATA, "rows.jsonl"),
        (TEMPLATE, "rows.jinja"),
        ("extends: rows.jsonl\n" + MINIMAL_RECIPE, "rows.jsonl"),
    ],
)
def test_a_link_out_of_the_folder_is_named_as_such(recipe: str, name: str, folder: Path) -> None:
    (folder / name).symlink_to(folder.parent / "outside.jsonl")
    shown = message_of(folder, recipe)
    target = folder.parent / "outside.jsonl"
    assert f"`{name}` is a symbolic link to {target}, which is outside the recipe's folder" in shown
    assert "help: copy the file into the recipe's folder" in shown
    assert "there is no file" not in shown


def test_a_file_in_a_linked_folder_is_named_as_such(folder: Path) -> None:
    (folder / "data").symlink_to(folder.parent)
    shown = message_of(folder, DATA.replace("rows.jsonl", "data/outside.jsonl"))
    assert "`data/outside.jsonl` is behind a symbolic link" in shown


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "real.jsonl").write_text(ROWS)
    (folder / "rows.jsonl").symlink_to("real.jsonl")
    (folder / "recipe.yaml").write_text(DATA)
    assert run_command("validate", folder).returncode == 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("broken link", "which does not exist"),
        ("circular link", "is a symbolic link to itself"),
        ("folder", "is a folder, not a file"),
        ("missing", "there is no file `rows.jsonl` in the recipe's folder"),
    ],
)
def test_other_unreadable_files_have_their_reasons(kind: str, message: str, folder: Path) -> None:
    path = folder / "rows.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.symlink_to("nowhere.jsonl" if kind == "broken link" else path.name)
    assert message in message_of(folder, DATA)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_model_folder_of_links_is_not_read_in_part(name: str, folder: Path) -> None:
    """A snapshot in the cache of the hub consists of links to blobs in another folder."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "qwen2"}')
    (model / "model.safetensors").write_bytes(b"")
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(folder.parent / "outside.jsonl")
    recipe = MINIMAL_RECIPE.replace(BASE, "    from: ./model\n").replace(
        "    tokenizer: {init: characters}\n", ""
    )
    shown = message_of(folder, recipe)
    assert f"`model/{name}` is a symbolic link to" in shown

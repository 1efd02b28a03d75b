"""What could not be pulled is not published."""

from pathlib import Path

import pytest

from posttrain.runtime.artifacts.recipe_artifact import pack_recipe, parse_recipe_manifest
from posttrain.runtime.registry.registry_errors import ContentError


def pack(folder: Path, names: list[str]) -> bytes:
    return pack_recipe(folder, "recipe.yaml", names, None, "{}").manifest


def test_a_recipe_within_the_limits_is_packed(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("recipe: 1")
    contents, _ = parse_recipe_manifest(pack(tmp_path, []), 1 << 20)
    assert set(contents.files) == {"recipe.yaml", "plan.json"}


def test_what_pull_refuses_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("recipe: 1")
    (tmp_path / "task.yaml").write_bytes(b" " * ((4 << 20) + 1))
    with pytest.raises(ContentError, match=r"could not be pulled: `task\.yaml` is larger than 4 MiB"):
        pack(tmp_path, ["task.yaml"])
    names = [f"f{n}" for n in range(2000)]
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ContentError, match="could not be pulled: the artifact has 2002 files"):
        pack(tmp_path, names)


@pytest.mark.parametrize("name", ["a:b", "DATA.txt", ".posttrain/artifact.json"])
def test_a_name_that_pull_refuses_is_explained_to_the_publisher(name: str, tmp_path: Path) -> None:
    (tmp_path / ".posttrain").mkdir()
    for one in ("recipe.yaml", "data.txt", name):
        (tmp_path / one).write_text("text")
    with pytest.raises(ContentError, match="could not be pulled") as refused:
        pack(tmp_path, ["data.txt", name])
    assert "tell its publisher" not in refused.value.advice

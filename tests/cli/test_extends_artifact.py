"""Recipes that extend recipes in a registry."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from posttrain.cli.main import main

pytestmark = pytest.mark.docker
BASE = """\
recipe: 1
name: base
extends: shared.yaml
stages:
  count: {script: [sh, -c, "wc -w < words.txt > $OUT/count"], files: [words.txt]}
"""


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def base(registry: str, tmp_path: Path) -> str:
    """The pinned reference of a recipe with files of its own."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(BASE)
    (folder / "shared.yaml").write_text("description: of the base\n")
    (folder / "words.txt").write_text("one two three\n")
    pushed = recipe("push", folder, f"oci://{registry}/posttrain-test/base-{time.time_ns()}:v1")
    assert pushed.exit_code == 0, pushed.output
    return pushed.stdout.strip()


def recipe(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def write_child(folder: Path, reference: str, more: str = "") -> Path:
    folder.mkdir()
    (folder / "recipe.yaml").write_text(f"recipe: 1\nname: child\nextends: {reference}\n{more}")
    # A relative path in the artifact names a file of the artifact.
    (folder / "shared.yaml").write_text("description: [not, of, the, base]\n")
    return folder


def test_the_files_of_the_artifact_are_used(base: str, tmp_path: Path) -> None:
    child = write_child(tmp_path / "child", base)
    assert recipe("validate", child).exit_code == 0
    home = tmp_path / "home"
    refused = recipe("run", child, "--home", home)
    assert refused.exit_code == 1
    assert base in refused.output
    done = recipe("run", child, "--home", home, "--trust")
    assert done.exit_code == 0, done.output
    assert next((home / "store").rglob("files/count")).read_text() == "3\n"


def test_a_file_in_the_folder_takes_precedence(base: str, tmp_path: Path) -> None:
    child = write_child(tmp_path / "child", base)
    (child / "words.txt").write_text("one\n")
    home = tmp_path / "home"
    assert recipe("run", child, "--home", home, "--trust").exit_code == 0
    assert next((home / "store").rglob("files/count")).read_text() == "1\n"


def test_a_recipe_that_extends_an_artifact_is_published_without_its_files(
    base: str, registry: str, tmp_path: Path
) -> None:
    child = write_child(tmp_path / "child", base)
    pushed = recipe("push", child, f"oci://{registry}/posttrain-test/child-{time.time_ns()}:v1")
    assert pushed.exit_code == 0, pushed.output
    pulled = recipe("pull", pushed.stdout.strip(), tmp_path / "pulled")
    assert pulled.exit_code == 0, pulled.output
    found = sorted(path.name for path in (tmp_path / "pulled").iterdir())
    assert found == [".pulled.json", "plan.json", "recipe.yaml"]
    assert recipe("validate", pushed.stdout.strip()).exit_code == 0


@pytest.mark.parametrize(
    ("reference", "cause"),
    [
        ("oci://127.0.0.1:1/base:v1", "has no digest"),
        ("oci://127.0.0.1:1/Base@sha256:" + "0" * 64, "is not the name of a repository"),
        ("oci://127.0.0.1:1/base@sha256:" + "0" * 64, "cannot reach the registry"),
    ],
)
def test_an_artifact_that_is_not_available_is_an_error_of_the_recipe(
    reference: str, cause: str, tmp_path: Path
) -> None:
    done = recipe("validate", write_child(tmp_path / "child", reference))
    assert done.exit_code == 1
    assert "PT0111" in done.output
    assert cause in done.output
    assert "recipe.yaml:3:10" in done.output

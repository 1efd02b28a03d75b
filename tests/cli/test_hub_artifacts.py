"""Recipes and products on the Hub: `hf://ORG/NAME`."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.runtime.fake_hub import COMMIT, FakeHub

from posttrain.cli.main import main

RECIPE = """\
recipe: 1
name: shared
description: Counts words.
stages:
  count: {script: [sh, -c, "wc -w < words.txt > $OUT/count"], files: [words.txt]}
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 20)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.chdir(tmp_path)
        yield server
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "words.txt").write_text("one two three\n")
    return folder


def recipe(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def test_a_recipe_comes_back_from_the_hub(hub: FakeHub, folder: Path, tmp_path: Path) -> None:
    pushed = recipe("push", folder, "hf://someone/out")
    assert pushed.exit_code == 0, pushed.output
    assert pushed.stdout.strip() == f"hf://someone/out@{COMMIT}"
    assert hub.files["words.txt"] == b"one two three\n"
    digest = hashlib.sha256(hub.files[".posttrain/artifact.json"]).hexdigest()
    assert f"Digest: `sha256:{digest}`" in hub.files["README.md"].decode()

    pulled = recipe("pull", "hf://someone/out", tmp_path / "theirs")
    assert pulled.exit_code == 0, pulled.output
    assert (tmp_path / "theirs" / "recipe.yaml").read_text() == RECIPE
    assert "runs the program" in pulled.output
    refused = recipe("run", f"hf://someone/out@{COMMIT}", "--home", tmp_path / "home")
    assert refused.exit_code == 1
    assert "--trust" in refused.output


def test_a_commit_needs_no_network_again(hub: FakeHub, folder: Path) -> None:
    assert recipe("push", folder, "hf://someone/out").exit_code == 0
    assert recipe("validate", "hf://someone/out").exit_code == 0
    hub.seen.clear()
    assert recipe("validate", f"hf://someone/out@{COMMIT}").exit_code == 0
    assert hub.seen == []


def test_a_changed_file_is_refused(hub: FakeHub, folder: Path) -> None:
    assert recipe("push", folder, "hf://someone/out").exit_code == 0
    hub.files["words.txt"] = b"one two FOUR!\n"
    done = recipe("validate", "hf://someone/out")
    assert done.exit_code == 1
    assert "digest mismatch" in done.output


@pytest.mark.parametrize("name", ["words.txt", ".posttrain/artifact.json"])
def test_a_file_that_is_larger_than_it_declares_is_not_downloaded(
    hub: FakeHub, folder: Path, tmp_path: Path, name: str
) -> None:
    assert recipe("push", folder, "hf://someone/out").exit_code == 0
    hub.files[name] += b" " * (16 << 20)
    done = recipe("validate", "hf://someone/out")
    assert done.exit_code == 1
    assert f"has a file {name} of more than the" in done.output
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 1 << 20


def test_a_repository_without_a_recipe(hub: FakeHub) -> None:
    hub.files["README.md"] = b"# A model\n"
    done = recipe("validate", "hf://someone/out")
    assert done.exit_code == 1
    assert "is no recipe" in done.output
    invalid = recipe("validate", "hf://someone")
    assert invalid.exit_code == 2
    assert "hf://ORG/NAME" in invalid.output


def test_a_hub_that_refuses_is_quoted(hub: FakeHub, folder: Path) -> None:
    hub.status = 403
    done = recipe("push", folder, "hf://someone/out")
    assert done.exit_code == 1
    assert "this token may not write" in done.output


def test_a_product_has_a_card(hub: FakeHub, folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert recipe("run", folder, "--home", home).exit_code == 0
    done = recipe("push", "count", "hf://someone/out", "--home", home)
    assert done.exit_code == 0, done.output
    assert hub.files["count"] == b"3\n"
    assert "Recipe: `sha256:" in hub.files["README.md"].decode()

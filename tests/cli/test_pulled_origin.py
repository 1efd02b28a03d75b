"""Recipes of others need --trust wherever their files are, whatever the artifact contains."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.runtime.registry.fake_registry import FakeRegistry, serve_registry

from posttrain.cli import recipe_origin
from posttrain.cli.main import main
from posttrain.runtime.artifacts import artifact_cache, recipe_fetch
from posttrain.runtime.artifacts.media_types import RECIPE_ARTIFACT, RECIPE_CONFIG, RECIPE_FILE
from posttrain.runtime.registry.oci_manifest import MANIFEST_TYPE, TITLE
from posttrain.runtime.registry.oci_reference import parse_reference

PROGRAM = "recipe: 1\nname: program\nstages:\n  a: {script: [sh, -c, 'echo 1 > $OUT/x']}\n"
HARMLESS = "recipe: 1\nname: harmless\ndatasets: {rows: {from: {rows: [{a: 1}]}}}\n"
ENDPOINT = """\
recipe: 1
name: endpoint
endpoints: {e: {provider: openai, base_url: "http://127.0.0.1:9/v1", model: x%s}}
datasets: {rows: {from: {rows: [{prompt: hi}]}}}
stages: {g: {generate: e, data: rows, sampling: {max_tokens: 5}}}
"""


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def recipe(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def publish(fake: FakeRegistry, files: dict[str, str], path: str = "recipe.yaml") -> str:
    """The reference of an artifact that was not made by `recipe push`."""

    def blob(text: str, media_type: str) -> dict[str, Any]:
        digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        fake.blobs[digest] = text.encode()
        return {"mediaType": media_type, "digest": digest, "size": len(text.encode())}

    layers = [{**blob(text, RECIPE_FILE), "annotations": {TITLE: name}} for name, text in files.items()]
    config = blob(json.dumps({"format": 1, "recipe": path}), RECIPE_CONFIG)
    whole = {"schemaVersion": 2, "artifactType": RECIPE_ARTIFACT, "config": config, "layers": layers}
    digest = fake.put_manifest(json.dumps(whole).encode(), MANIFEST_TYPE, "v1")
    return f"oci://{fake.address}/theirs@{digest}"


def test_recipes_in_subfolders_need_trust(tmp_path: Path) -> None:
    with serve_registry() as fake:
        one = publish(fake, {"sub/recipe.yaml": PROGRAM}, "sub/recipe.yaml")
        other = publish(fake, {"recipe.yaml": HARMLESS, "deep/sub/recipe.yaml": PROGRAM})
        assert recipe("pull", one, "one").exit_code == 0
        assert recipe("pull", other, "other").exit_code == 0
    for reference, path in ((one, "one/sub"), (other, "other/deep/sub")):
        refused = recipe("run", path, "--home", tmp_path / "home")
        assert refused.exit_code == 1, refused.output
        assert reference in refused.output
        assert "--trust" in refused.output
        assert recipe("run", path, "--home", tmp_path / "home", "--trust").exit_code == 0
        assert recipe("run", path, "--home", tmp_path / "home").exit_code == 0  # trusted from then on


@pytest.mark.parametrize("name", [".pulled.json", ".pulled.json/x", "sub/.Pulled.json"])
def test_an_artifact_cannot_contain_its_origin(name: str) -> None:
    with serve_registry() as fake:
        reference = publish(fake, {"recipe.yaml": PROGRAM, name: '{"origin": "oci://good.example.com/x"}'})
        for command in ("pull", "validate"):
            refused = recipe(command, reference)
            assert refused.exit_code == 1
            assert "has a reserved name" in refused.output


def test_an_interrupted_pull_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_half(source: Path, target: Path, **_: object) -> None:
        (target / "recipe.yaml").write_bytes((source / "recipe.yaml").read_bytes())
        raise KeyboardInterrupt

    with serve_registry() as fake:
        reference = publish(fake, {"recipe.yaml": PROGRAM})
        monkeypatch.setattr(recipe_fetch.shutil, "copytree", copy_half)
        recipe("pull", reference, "half")
        assert not (tmp_path / "half").exists()
        (staged,) = tmp_path.glob(".half-*")
        assert recipe("run", staged, "--home", tmp_path / "home").exit_code == 1
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        assert recipe("pull", reference, "half").exit_code == 0
        assert not list(tmp_path.glob(".half-*"))
        (tmp_path / "empty").mkdir()
        assert recipe("pull", reference, "empty").exit_code == 0
    assert recipe("run", "half", "--home", tmp_path / "home").exit_code == 1
    assert recipe("run", "empty", "--home", tmp_path / "home").exit_code == 1
    assert {path.name for path in (tmp_path / "empty").iterdir()} == {".pulled.json", "recipe.yaml"}


def test_a_damaged_origin_needs_trust(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(PROGRAM)
    (folder / ".pulled.json").write_text("{")
    assert recipe("run", folder, "--home", tmp_path / "home").exit_code == 1


@pytest.mark.parametrize(
    ("more", "action"),
    [
        (", api_key: {env: HF_TOKEN}", "uses HF_TOKEN at http://127.0.0.1:9/v1"),
        (", api_key: {env: OTHER_KEY}", "uses OTHER_KEY at http://127.0.0.1:9/v1"),
        ("", "sends its rows to http://127.0.0.1:9/v1"),
    ],
)
def test_endpoints_need_trust(
    more: str, action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key named as the token of the hub, and rows of a dataset that only the user can read."""
    monkeypatch.setenv("HF_TOKEN", "secret")
    with serve_registry() as fake:
        refused = recipe("run", publish(fake, {"recipe.yaml": ENDPOINT % more}), "--home", tmp_path / "home")
    assert refused.exit_code == 1
    assert action in refused.output
    assert not (tmp_path / "home").exists()


JUDGED = """\
recipe: 1
name: judged
endpoints: {e: {provider: openai, base_url: "http://127.0.0.1:9/v1", model: x%s}}
rewards:
  r:
    reads: {completion: text}
    nodes: {s: {judge: {of: completion, endpoint: e, rubric: Is it good?, scale: [1, 10]}}}
    returns: s
stages: {a: {script: ["true"]}}
"""


@pytest.mark.parametrize(
    ("more", "action"),
    [
        (", api_key: {env: OTHER_KEY}", "uses OTHER_KEY at http://127.0.0.1:9/v1"),
        ("", "sends its rows to http://127.0.0.1:9/v1"),
    ],
)
def test_a_reward_that_asks_endpoints_needs_trust(more: str, action: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"completion": "private"}\n')
    child = tmp_path / "child"
    child.mkdir()
    with serve_registry() as fake:
        reference = publish(fake, {"recipe.yaml": JUDGED % more})
        (child / "recipe.yaml").write_text(f"recipe: 1\nname: child\nextends: {reference}\n")
        for path in (reference, child):
            refused = recipe("reward", path, "r", "--rows", rows)
            assert refused.exit_code == 1
            assert action in refused.output
            assert "--trust" in refused.output


def test_a_folder_that_appears_meanwhile_is_kept_if_it_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_registry() as fake:
        reference = parse_reference(publish(fake, {"recipe.yaml": HARMLESS}))
        unpack = recipe_fetch.shutil.copyfile
        done = []

        def copy_after_another(source: Path, target: Path) -> None:
            if not done:
                done.append(True)
                recipe_fetch.fetch_recipe(reference)  # another process
            unpack(source, target)

        monkeypatch.setattr(recipe_fetch.shutil, "copyfile", copy_after_another)
        assert recipe_fetch.fetch_recipe(reference).recipe.read_text() == HARMLESS
        fetched = recipe_fetch.fetch_recipe(reference)
        (fetched.folder / "more").write_text("damaged")
        done.clear()
        assert recipe_fetch.fetch_recipe(reference).recipe.read_text() == HARMLESS
        assert not (fetched.folder / "more").exists()


def test_what_is_cached_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache can be read-only."""
    with serve_registry() as fake:
        reference = parse_reference(publish(fake, {"recipe.yaml": HARMLESS}))
        recipe_fetch.fetch_recipe(reference)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(artifact_cache.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(artifact_cache.tempfile, "mkdtemp", refuse)
    assert recipe_fetch.fetch_recipe(reference).recipe.read_text() == HARMLESS


def test_a_user_without_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with the user id of somebody else."""

    def fail(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(PROGRAM)
    with serve_registry() as fake:
        reference = publish(fake, {"recipe.yaml": HARMLESS})
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "expanduser", fail)
        assert recipe_origin.find_origin(folder / "recipe.yaml", ()) is None
        refused = recipe("validate", reference)
    assert isinstance(refused.exception, OSError) or refused.exit_code == 1
    assert "set XDG_CACHE_HOME" in f"{refused.exception}{refused.output}"

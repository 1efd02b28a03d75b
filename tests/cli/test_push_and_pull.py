"""`recipe push` and `recipe pull` at a real registry, and references in the place of paths."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from posttrain.cli.main import main
from posttrain.runtime.artifacts import product_pull

pytestmark = pytest.mark.docker
RECIPE = """\
recipe: 1
name: shared
extends: parts/base.yaml
profiles: {small: {stages: {count: {files: [few.txt]}}}}
stages:
  count: {script: [sh, -c, "cat *.txt | wc -w > $OUT/count"], files: [words.txt]}
"""
Recipe = Callable[..., Result]


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_recipe(tmp_path / "mine")


@pytest.fixture
def target(registry: str) -> str:
    return f"oci://{registry}/posttrain-test/cli-{time.time_ns()}:v1"


def write_recipe(folder: Path) -> Path:
    (folder / "parts").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "parts" / "base.yaml").write_text("description: Counts words.\n")
    (folder / "words.txt").write_text("one two three\n")
    (folder / "few.txt").write_text("one\n")
    (folder / "unrelated.txt").write_text("not a part of the recipe\n")
    return folder


def recipe(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def push(folder: Path, target: str) -> str:
    done = recipe("push", folder, target)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def test_equal_folders_have_equal_digests(folder: Path, target: str, tmp_path: Path) -> None:
    first = push(folder, target)
    other = write_recipe(tmp_path / "of another user")
    for path in sorted(other.rglob("*"), reverse=True):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "other cache")
    assert push(other, target) == first
    (other / "unrelated.txt").write_text("changed")
    assert push(other, target) == first
    (other / "few.txt").write_text("only a profile reads it")
    assert push(other, target) != first


def test_the_layers_are_the_files_that_the_recipe_reads(
    folder: Path, target: str, skopeo: Path, tmp_path: Path
) -> None:
    assert recipe("lock", folder).exit_code == 0
    pushed = push(folder, target)
    shown = [skopeo, "inspect", "--raw", "--tls-verify=false", target.replace("oci:", "docker:", 1)]
    manifest = json.loads(subprocess.run(shown, capture_output=True, check=True).stdout)
    titles = [layer["annotations"]["org.opencontainers.image.title"] for layer in manifest["layers"]]
    assert titles == ["few.txt", "parts/base.yaml", "plan.json", "recipe.lock", "recipe.yaml", "words.txt"]
    assert manifest["artifactType"] == "application/vnd.posttrain.recipe.v1"
    copied = f"{target.replace('oci:', 'docker:', 1)}-copy"
    copy = [skopeo, "copy", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false"]
    subprocess.run([*copy, shown[-1], copied], capture_output=True, check=True)
    again = recipe("pull", f"{target}-copy", tmp_path / "copy")
    assert pushed.rpartition("@")[2] in again.output


def test_a_pulled_recipe_has_the_same_files(folder: Path, target: str, tmp_path: Path) -> None:
    push(folder, target)
    done = recipe("pull", target, tmp_path / "theirs")
    assert done.exit_code == 0, done.output
    assert "runs the program" in done.output
    for name in ("recipe.yaml", "parts/base.yaml", "words.txt", "few.txt"):
        assert (tmp_path / "theirs" / name).read_bytes() == (folder / name).read_bytes()
    assert not (tmp_path / "theirs" / "unrelated.txt").exists()
    refused = recipe("pull", target, tmp_path / "theirs")
    assert refused.exit_code == 1
    assert "is not an empty folder" in refused.output


def test_commands_take_references(folder: Path, target: str) -> None:
    pinned = push(folder, target)
    by_tag = recipe("validate", target)
    assert by_tag.exit_code == 0, by_tag.output
    assert f"{target} is {pinned}" in by_tag.stderr
    plan = recipe("plan", pinned, "--format", "json")
    assert json.loads(plan.stdout)["name"] == "shared"
    diff = recipe("diff", folder, pinned, "--exit-code")
    assert diff.exit_code == 0, diff.output
    refused = recipe("lock", pinned)
    assert refused.exit_code == 2
    assert "recipe pull" in refused.output


def test_a_second_use_needs_no_network(
    folder: Path, target: str, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = push(folder, target)
    assert recipe("validate", pinned).exit_code == 0
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    assert recipe("validate", pinned).exit_code == 0
    unpinned = recipe("validate", target)
    assert unpinned.exit_code == 1
    assert f"cannot reach the registry {registry}" in unpinned.output


def test_a_changed_cache_is_not_used(folder: Path, target: str, tmp_path: Path) -> None:
    pinned = push(folder, target)
    assert recipe("validate", pinned).exit_code == 0
    (unpacked,) = (tmp_path / "cache").rglob("recipe.yaml")
    unpacked.write_text("evil")
    for blob in (tmp_path / "cache" / "posttrain" / "blobs" / "sha256").iterdir():
        blob.write_bytes(b"evil")
    assert recipe("validate", pinned).exit_code == 0
    assert unpacked.read_text() == RECIPE


def test_foreign_code_needs_trust(folder: Path, target: str, tmp_path: Path) -> None:
    pinned = push(folder, target)
    home = tmp_path / "home"
    refused = recipe("run", pinned, "--home", home)
    assert refused.exit_code == 1
    assert 'runs the program ["sh", "-c", "cat *.txt | wc -w > $OUT/count"] (count)' in refused.output
    assert "--trust" in refused.output
    assert not home.exists()
    trusted = recipe("run", pinned, "--home", home, "--trust")
    assert trusted.exit_code == 0, trusted.output

    assert recipe("pull", pinned, tmp_path / "theirs").exit_code == 0
    refused = recipe("run", tmp_path / "theirs", "--home", home)
    assert refused.exit_code == 1
    assert pinned in refused.output
    assert recipe("run", tmp_path / "theirs", "--home", home, "--trust").exit_code == 0
    assert recipe("run", tmp_path / "theirs", "--home", home).exit_code == 0  # trusted from then on


def test_validate_and_plan_execute_no_code(target: str, tmp_path: Path) -> None:
    folder = tmp_path / "coded"
    folder.mkdir()
    ran = tmp_path / "ran"
    (folder / "scores.py").write_text(f"open({str(ran)!r}, 'w')\ndef score(completion):\n    return 1.0\n")
    (folder / "rows.jsonl").write_text('{"question": "1", "completion": "1"}\n')
    (folder / "recipe.yaml").write_text(
        "recipe: 1\nname: coded\ndatasets: {rows: {from: {files: [rows.jsonl]}}}\n"
        "rewards: {r: {reads: {completion: text}, nodes: {s: {python: {call: 'scores.py:score',"
        " with: {completion: completion}}}}, returns: s}}\n"
        "stages: {a: {script: [sh, -c, 'true']}}\n"
    )
    pinned = push(folder, target)
    for command in ("validate", "plan"):
        assert recipe(command, pinned).exit_code == 0
    checked = recipe("plan", pinned, "--check")  # it would start interpreters that the recipe names
    assert checked.exit_code == 1
    assert "--trust" in checked.output
    scored = recipe("reward", pinned, "r", "--rows", folder / "rows.jsonl")
    assert scored.exit_code == 1
    assert "runs the Python code in scores.py" in scored.output
    assert not ran.exists()


def test_what_cannot_be_published_is_refused(folder: Path, target: str, tmp_path: Path) -> None:
    (folder / "words.txt").write_bytes(b"word " * (1 << 19))
    large = recipe("push", folder, target, "--max-mb", 1)
    assert large.exit_code == 2
    assert "more than 1" in large.output
    (folder / "words.txt").unlink()
    (folder / "words.txt").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    outside = recipe("push", folder, target)
    assert outside.exit_code == 1
    assert "symbolic link" in outside.output
    (folder / "recipe.yaml").write_text("recipe: 1\nname: broken\nstages: {a: {train: nothing}}\n")
    broken = recipe("push", folder, target)
    assert broken.exit_code == 1
    assert "it is not published" in broken.output
    pinned = recipe("push", folder, f"{target}@sha256:{'0' * 64}")
    assert pinned.exit_code == 2


def test_a_second_home_on_the_same_cache_runs_nothing(folder: Path, target: str, tmp_path: Path) -> None:
    cache = target.removesuffix(":v1")
    first = recipe("run", folder, "--home", tmp_path / "one", "--cache", cache)
    assert first.exit_code == 0, first.output
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    second = recipe("run", folder, "--home", tmp_path / "two", "--cache", cache)
    assert second.exit_code == 0, second.output
    assert "nothing to run: all 1 steps are cached" in second.output
    digests = [(next((tmp_path / home / "store").rglob("count"))).read_bytes() for home in ("one", "two")]
    assert digests[0] == digests[1] == b"3\n"
    assert recipe("verify", "--home", tmp_path / "two").exit_code == 0
    reading = recipe(
        "run", folder, "--home", tmp_path / "three", "--cache", f"{cache}-none", "--cache-mode", "read"
    )
    assert reading.exit_code == 0
    assert "1 done" in reading.output


def test_a_product_is_published_with_its_recipe(folder: Path, target: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert recipe("run", folder, "--home", home).exit_code == 0
    first = recipe("push", "count", target, "--home", home)
    assert first.exit_code == 0, first.output
    again = recipe("push", "count", target, "--home", home)
    assert again.stdout == first.stdout
    assert "0 bytes sent" in again.stderr
    (folder / "words.txt").write_text("changed")
    changed = recipe("push", "count", target, "--home", home)
    assert "published without it" in changed.stderr
    unknown = recipe("push", "cuont", target, "--home", home)
    assert unknown.exit_code == 2
    assert "count" in unknown.output


def test_a_product_is_pulled_into_a_folder(
    folder: Path, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, model = tmp_path / "home", tmp_path / "model"
    assert recipe("run", folder, "--home", home).exit_code == 0
    pushed = recipe("push", "count", target, "--home", home).stdout.strip()
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as context:
        context.setattr(product_pull.shutil, "disk_usage", Mock(return_value=usage._replace(free=1)))
        refused = recipe("pull", target, model)
        assert refused.exit_code == 1
        assert "and 1 bytes are free" in refused.output
    assert not model.exists()
    done = recipe("pull", target, model)
    assert done.exit_code == 0, done.output
    assert f"model is {pushed}: 1 file of a product" in done.output
    (store,) = (home / "store").iterdir()
    assert (model / "count").read_bytes() == (store / "files" / "count").read_bytes()
    assert (model / ".posttrain" / "manifest.json").read_bytes() == (store / "manifest.json").read_bytes()
    assert not list(tmp_path.glob(".model*"))
    again = recipe("pull", target, model)
    assert again.exit_code == 1
    assert "is not an empty folder" in again.output
    assert "is no recipe" in recipe("run", pushed, "--home", home).output

"""A trusted signature of a recipe replaces --trust, for every command that runs its code."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.cli.publisher import Publisher
from tests.ssh_keys import allow, make_key, public_key

from posttrain.cli import image

RECIPE = """\
recipe: 1
name: coded
rewards:
  r:
    reads: {completion: text}
    nodes: {s: {python: {call: "scores.py:score", with: {completion: completion}}}}
    returns: s
stages:
  a: {script: [sh, -c, "cat allowed_signers > $OUT/x"], files: [allowed_signers]}
"""
IMAGE = "127.0.0.1:9/evil@sha256:" + "1" * 64
Command = Callable[[Publisher, str], Result]


def run(publisher: Publisher, path: str, *options: str) -> Result:
    home = publisher.folder / "home"
    signers = options or ("--allowed-signers", str(publisher.allowed))
    return publisher.recipe_command("run", path, "--home", str(home), *signers)


def check(publisher: Publisher, path: str) -> Result:
    home = publisher.folder / "home"
    signers = ["--allowed-signers", str(publisher.allowed)]
    return publisher.recipe_command("plan", path, "--check", "--home", str(home), *signers)


def reward(publisher: Publisher, path: str) -> Result:
    rows = publisher.folder / "rows.jsonl"
    rows.write_text('{"completion": "a"}\n')
    signers = ["--allowed-signers", str(publisher.allowed)]
    return publisher.recipe_command("reward", path, "r", "--rows", str(rows), *signers)


def image_check(publisher: Publisher, path: str) -> Result:
    signers = ["--allowed-signers", str(publisher.allowed), "--set", f"stages.a.container.image={IMAGE}"]
    return publisher.recipe_command("image", "check", path, *signers)


COMMANDS: list[Command] = [run, check, reward, image_check]


@pytest.fixture
def recipe(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> str:
    """A published recipe with code, which is not signed."""
    (publisher.recipe / "recipe.yaml").write_text(RECIPE)
    (publisher.recipe / "scores.py").write_text("def score(completion):\n    return 1.0\n")
    shutil.copy(publisher.allowed, publisher.recipe / "allowed_signers")
    publisher.lock()
    empty = publisher.folder / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)

    def start(name: str, *_: object) -> bool:
        assert name == IMAGE
        return True

    monkeypatch.setattr(image, "_check_image", start)
    return publisher.push(str(publisher.recipe))


def refused(ended: Result) -> str:
    assert ended.exit_code == 1, ended.output
    assert "run it with --trust if you trust its publisher" in ended.output
    return ended.output


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.__name__)
def test_a_trusted_signature_is_enough(publisher: Publisher, recipe: str, command: Command) -> None:
    assert f"it has no trusted signature: {recipe} has no signed provenance" in refused(
        command(publisher, recipe)
    )
    publisher.signed(recipe)
    ended = command(publisher, recipe)
    assert ended.exit_code == 0, ended.output
    assert f"the recipe comes from {recipe}, signed by me@x (SHA256:" in ended.output
    (publisher.folder / "revoked_keys").write_text(public_key(publisher.key) + "\n")
    assert "is revoked by" in refused(command(publisher, recipe))
    (publisher.folder / "revoked_keys").unlink()
    allow(publisher.folder, ("other@x", "", make_key(publisher.folder, "other")))
    assert "its signer is not trusted" in refused(command(publisher, recipe))


def test_a_second_use_of_a_signature_needs_no_network(
    publisher: Publisher, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.signed(recipe)
    assert run(publisher, recipe).exit_code == 0
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    assert run(publisher, recipe).exit_code == 0
    allow(publisher.folder, ("other@x", "", make_key(publisher.folder, "other")))
    assert "cannot reach the registry" in refused(run(publisher, recipe))


def test_the_list_in_the_working_directory_counts(
    publisher: Publisher, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.signed(recipe)
    assert "no trusted signature" not in refused(run(publisher, recipe, "--skip", "none*"))
    monkeypatch.chdir(publisher.folder)
    ended = publisher.recipe_command("run", recipe, "--home", str(publisher.home))
    assert ended.exit_code == 0, ended.output


def test_a_pulled_folder_is_covered_while_it_is_as_published(publisher: Publisher, recipe: str) -> None:
    publisher.signed(recipe)
    folder = publisher.folder / "theirs"
    assert publisher.recipe_command("pull", recipe, str(folder)).exit_code == 0
    ended = run(publisher, str(folder))
    assert ended.exit_code == 0, ended.output
    assert (folder / ".pulled.json").exists()  # another signer list is asked again
    (folder / "other.yaml").write_text(RECIPE)
    assert "other.yaml in" in refused(run(publisher, str(folder / "other.yaml")))
    (folder / "scores.py").write_text("import os\n")
    assert f"scores.py in {folder} is not as published" in refused(run(publisher, str(folder)))


def test_extended_artifacts_need_a_signature_each(publisher: Publisher, recipe: str) -> None:
    child = publisher.folder / "child"
    child.mkdir()
    (child / "recipe.yaml").write_text(f"recipe: 1\nname: child\nextends: {recipe}\n")
    assert f"{recipe} has no signed provenance" in refused(run(publisher, str(child)))
    publisher.signed(recipe)
    assert run(publisher, str(child)).exit_code == 0


def test_a_recipe_does_not_say_whom_to_trust(
    publisher: Publisher, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The artifact contains a list of signers, and the user works in the pulled folder."""
    publisher.signed(recipe)
    folder = publisher.folder / "theirs"
    assert publisher.recipe_command("pull", recipe, str(folder)).exit_code == 0
    monkeypatch.chdir(folder)
    for command in (("run", "."), ("verify", recipe), ("reproduce", recipe)):
        ended = publisher.recipe_command(*command)
        assert ended.exit_code == 2, ended.output
        assert "which cannot say whom you trust" in ended.output


def test_a_product_is_no_recipe(publisher: Publisher, recipe: str, tmp_path: Path) -> None:
    """Its files can contain one, which nobody has signed as a recipe."""
    del recipe
    (publisher.recipe / "recipe.yaml").write_text(
        "recipe: 1\nname: evil\nstages:\n"
        "  double: {script: [sh, -c, 'cp words.txt $OUT/recipe.yaml'], files: [words.txt]}\n"
    )
    (publisher.recipe / "words.txt").write_text("recipe: 1\nname: a\nstages: {a: {script: [ls]}}\n")
    publisher.run()
    product = publisher.push("double")
    publisher.signed(product)
    folder = tmp_path / "model"
    assert publisher.recipe_command("pull", product, str(folder)).exit_code == 0
    (folder / "allowed_signers").write_text("")
    assert "the artifact is no recipe" in refused(run(publisher, str(folder)))

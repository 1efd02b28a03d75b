"""The Dockerfiles: base images have the digests of images.lock, and the CPU image has the locked stack."""

import json
import re
from pathlib import Path

import pytest
from tests.recipe_command import ROOT, run_command

from posttrain.runtime.runners.image_check import installed_versions, planned_versions, version_mismatches

FOLDER = ROOT / "containers"
DOCKERFILES = sorted(FOLDER.glob("Dockerfile.*"))
LOCK = json.loads((FOLDER / "images.lock").read_text())


def base_images(dockerfile: Path) -> dict[str, str]:
    """The build arguments for base images, with their defaults."""
    text = dockerfile.read_text()
    used = set(re.findall(r"^FROM \$\{(\w+)\}", text, re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\w+)", text, re.MULTILINE))
    named = set(re.findall(r"^FROM (?!\$\{)(\S+)", text, re.MULTILINE))
    assert named <= stages, "a base that is neither a build argument nor an earlier stage"
    return {
        name: value for name, value in re.findall(r"^ARG (\w+)=(\S+)", text, re.MULTILINE) if name in used
    }


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_every_base_stands_in_the_lock_with_its_digest(dockerfile: Path) -> None:
    for argument, base in base_images(dockerfile).items():
        name, _, digest = base.partition("@")
        assert LOCK[name]["index"] == digest
        assert LOCK[name]["use"] == f"{dockerfile.name}, {argument}"


def test_the_lock_names_nothing_else() -> None:
    used = {base.partition("@")[0] for file in DOCKERFILES for base in base_images(file).values()}
    assert set(LOCK) == used


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_a_build_installs_by_hash_and_leaves_root(dockerfile: Path) -> None:
    text = dockerfile.read_text().replace("\\\n", "")
    installs = [line for line in text.splitlines() for _ in re.findall(r"pip install", line)]
    assert installs
    for command in re.findall(r"pip install[^&\n]*", text):
        assert "--require-hashes" in command or "--no-deps" in command, command
        assert "--no-cache" in command, command
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]", last, re.MULTILINE)
    assert "--mount" not in text, "a plain build has no mounts"


@pytest.mark.docker
@pytest.mark.slow
def test_an_image_is_held_to_the_planned_stack(stack_image: str) -> None:
    """The image contains the stack of these tests."""
    done = run_command("image", "check", stack_image)
    expected = version_mismatches(installed_versions())
    assert done.returncode == (1 if expected else 0), done.stdout + done.stderr
    if not expected:
        assert "contains the required library versions" in done.stdout
    shown = [tuple(line.split()) for line in done.stdout.splitlines()[2:]]
    assert shown == expected


@pytest.mark.docker
def test_an_image_without_it_does_not(busybox_image: str) -> None:
    done = run_command("image", "check", busybox_image)
    assert done.returncode == 1
    assert "the image has no `python`" in done.stderr
    assert "help:" in done.stderr


@pytest.mark.docker
def test_an_image_that_was_built_here_is_found_by_its_id(busybox_image: str, tmp_path: Path) -> None:
    """Without a registry it has no digest of one."""
    stage = f"{{script: [ls], container: {{image: 'never-pushed@{busybox_image}'}}}}"
    (tmp_path / "recipe.yaml").write_text(f"recipe: 1\nname: local\nstages: {{list: {stage}}}\n")
    done = run_command("image", "check", tmp_path)
    assert "the image has no `python`" in done.stderr


def test_a_recipe_without_a_container_has_no_image_to_check() -> None:
    done = run_command("image", "check", ROOT / "tests" / "recipes" / "tiny")
    assert done.returncode == 2
    assert "runs in a container" in done.stderr


@pytest.mark.docker
def test_an_image_that_is_not_here(docker_engine: object) -> None:
    done = run_command("image", "check", "posttrain-no-such-image:latest")
    assert done.returncode == 1
    assert "the image posttrain-no-such-image:latest is not on this machine" in done.stderr


@pytest.mark.parametrize(
    ("installed", "kinds", "expected"),
    [
        ("0.4.13", {"benchmark"}, []),
        (None, {"train"}, []),
        (None, {"train", "benchmark"}, [("lm-eval", "0.4.13", "missing")]),
        ("0.4.9", set(), [("lm-eval", "0.4.13", "0.4.9")]),
    ],
)
def test_only_benchmarks_need_lm_eval(
    installed: str | None, kinds: set[str], expected: list[tuple[str, str, str]]
) -> None:
    """No shipped image contains it. A version that is there must be the pinned one."""
    found = {**planned_versions(), "lm-eval": installed}
    assert version_mismatches(found, kinds) == expected

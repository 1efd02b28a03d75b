"""Every recipe of the project compiles without diagnostics, and runs with its `smoke` profile."""

import json
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.recipe_command import ROOT, run_command

RECIPES = sorted(path.parent for path in ROOT.glob("recipes/*/recipe.yaml"))
PROFILES = [
    (folder, profile)
    for folder in RECIPES
    for profile in YAML(typ="safe").load(folder / "recipe.yaml").get("profiles", {})
]
SMOKE_RECIPES = [folder for folder, profile in PROFILES if profile == "smoke"]


def recipe_ids(item: object) -> str:
    return item.name if isinstance(item, Path) else str(item)


@pytest.mark.parametrize("folder", RECIPES, ids=recipe_ids)
def test_it_validates_and_plans_without_a_word(folder: Path, tmp_path: Path) -> None:
    checked = run_command("validate", folder)
    assert (checked.returncode, checked.stderr) == (0, "")
    planned = run_command("plan", folder, "--format", "json", "--home", tmp_path)
    steps = json.loads(planned.stdout)["steps"]
    target = json.loads(planned.stdout)["target"]["gpus"]
    trained = [step for step in steps if step["kind"] == "train"]
    assert all(step["estimate"] for step in trained) or target is None
    assert all(step["resources"]["gpus"] for step in trained) or target is None


def test_they_are_formatted() -> None:
    checked = run_command("fmt", "--check", *RECIPES)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize(("folder", "profile"), PROFILES, ids=recipe_ids)
def test_every_profile_validates_without_a_word(folder: Path, profile: str) -> None:
    checked = run_command("validate", folder, "--profile", profile)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("folder", SMOKE_RECIPES, ids=recipe_ids)
def test_the_smoke_profile_runs_on_a_cpu(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".recipe"))
    ran = run_command("run", copy, "--profile", "smoke", "--home", tmp_path / "home")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    again = run_command("run", copy, "--profile", "smoke", "--home", tmp_path / "home")
    assert "nothing to run" in again.stdout

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
TIMED_KINDS = ("train", "eval", "generate")
SMOKE_RECIPES = [folder for folder, profile in PROFILES if profile == "smoke"]


def recipe_ids(item: object) -> str:
    return item.name if isinstance(item, Path) else str(item)


@pytest.mark.parametrize("folder", RECIPES, ids=recipe_ids)
def test_it_validates_without_a_word(folder: Path) -> None:
    checked = run_command("validate", folder)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("folder", RECIPES, ids=recipe_ids)
def test_its_plan_has_the_time_and_cost_of_every_stage(folder: Path, tmp_path: Path) -> None:
    planned = json.loads(run_command("plan", folder, "--format", "json", "--home", tmp_path).stdout)
    timed = [step for step in planned["steps"] if step["kind"] in TIMED_KINDS]
    if planned["target"]["gpus"] is None:  # a recipe for a CPU
        assert not YAML(typ="safe").load(folder / "recipe.yaml").get("hardware")
        return
    assert timed
    for step in timed:
        estimate = step["estimate"]
        assert estimate["seconds"] > 0, step["id"]
        assert estimate["dollars"] >= 0, step["id"]
        assert "unknown_reason" not in estimate, step["id"]
        assert all("dollars_max" in calls for calls in estimate.get("api", ())), step["id"]
    assert all(step["resources"]["gpus"] for step in timed if step["kind"] == "train")
    shown = run_command("plan", folder, "--home", tmp_path).stdout
    assert "unknown duration" not in shown
    assert "to run; about " in shown


def test_they_are_formatted() -> None:
    checked = run_command("fmt", "--check", *RECIPES)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize(("folder", "profile"), PROFILES, ids=recipe_ids)
def test_every_profile_validates_without_a_word(folder: Path, profile: str) -> None:
    checked = run_command("validate", folder, "--profile", profile)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("folder", SMOKE_RECIPES, ids=recipe_ids)
def test_the_smoke_profile_learns_on_a_cpu(folder: Path, tmp_path: Path) -> None:
    """The recipe's own gate says that the last metric is better than the first."""
    copy, home = tmp_path / folder.name, tmp_path / "home"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".recipe"))
    ran = run_command("run", copy, "--profile", "smoke", "--home", home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    steps = json.loads(run_command("status", "--home", home, "--format", "json").stdout)["steps"]
    conditions = [one for step in steps for one in step["facts"].get("conditions", ())]
    compared = [one for one in conditions if one["kind"] == "better_than"]
    assert compared
    assert [one["text"] for one in conditions if one["verdict"] != "pass"] == []
    again = run_command("run", copy, "--profile", "smoke", "--home", home)
    assert "nothing to run" in again.stdout

"""The CLI commands for a recipe with an environment: validate, plan, run, and a cached run."""

import json
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command
from tests.runtime.environments.episode_recipe import episode_recipe
from tests.runtime.environments.test_episode_resume import GAME, OWN

pytestmark = pytest.mark.slow
_FEW = "max_steps: 3, num_prompts: 4, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 8"


def test_a_recipe_with_a_world_of_its_own(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "recipe.yaml"
    file.write_text(episode_recipe(OWN, _FEW, tokens=2))
    missing = run_command("validate", file)
    assert missing.returncode == 1
    assert "there is no file `game.py` in the recipe's folder" in missing.stdout + missing.stderr
    (tmp_path / "game.py").write_text(GAME)
    run = run_command("run", file, "--home", home)
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads((product_path(home, "after") / "metrics.json").read_text())
    assert {"success", "turns", "score"} <= result.keys()
    assert result["success"]["items"] == 81
    assert set(states(file, home).values()) == {"cached"}
    (tmp_path / "game.py").write_text(GAME.replace("return float", "return 0.5 * float"))
    changed = states(file, home)
    assert {step for step, state in changed.items() if state != "cached"} == {"before", "grpo", "after"}


def states(file: Path, home: Path) -> dict[str, str]:
    """The state of each step in the table of the plan."""
    asked = run_command("plan", file, "--home", home)
    assert asked.returncode == 0, asked.stderr
    lines = [line.split() for line in asked.stdout.splitlines()]
    return {line[0]: line[2] for line in lines if len(line) > 3 and line[2] in ("cached", "run")}

"""Which recipes made a product."""

from pathlib import Path

import pytest

from posttrain.cli.compile import compile_file
from posttrain.cli.recipe_files import produces_key
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_INIT, minimal_recipe
from posttrain.compiler.lockfile.lock_entries import required_entries
from posttrain.spec.lockfile import format_lock

_HUB = minimal_recipe(
    (MINIMAL_INIT, "    from: Qwen/Qwen2.5-0.5B\n"),
    ("    tokenizer: {init: characters}\n", ""),
    ("stages:\n", "profiles:\n  short: {seed: 5}\nstages:\n"),
)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe with a lock that pins its model."""
    file = tmp_path / "recipe.yaml"
    file.write_text(_HUB)
    outcome, _ = compile_file(file, (), ())
    assert outcome.plan is not None, outcome.diagnostics
    entries = required_entries(outcome.plan, outcome.hub_references)
    lock = format_lock({id: value or "0" * 40 for id, value in entries.items()})
    (tmp_path / "recipe.lock").write_text(lock)
    return file


@pytest.mark.parametrize("profiles", [(), ("short",)])
@pytest.mark.parametrize("locked", [False, True])
def test_a_recipe_makes_the_steps_of_its_lock_and_its_profiles(
    recipe: Path, locked: bool, profiles: tuple[str, ...]
) -> None:
    plan = compile_file(recipe, (), profiles, locked)[0].plan
    assert plan is not None
    assert all(produces_key(recipe, step.key) for step in plan.steps)


def test_the_lock_changes_keys(recipe: Path) -> None:
    loose, locked = (compile_file(recipe, (), (), locked)[0].plan for locked in (False, True))
    assert loose is not None
    assert locked is not None
    assert {step.key for step in loose.steps} != {step.key for step in locked.steps}
    assert not produces_key(recipe, "0" * 64)

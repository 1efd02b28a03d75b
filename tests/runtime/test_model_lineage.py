"""The lineage of a model, whose records the card of an export shows."""

import shutil
from pathlib import Path

import pytest
from tests.runtime.scripts_recipe import compile_text, run_text
from tests.runtime.test_damaged_records import flip_bit, step_file, verify

from posttrain.runtime.execution import product_checks
from posttrain.runtime.execution.run_plan import RunOptions, run_plan
from posttrain.runtime.execution.selection import SelectionOptions
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.integrity import Damage
from posttrain.runtime.store.model_lineage import lineage_damage, model_lineage
from posttrain.runtime.store.products import Product
from posttrain.spec.plan import Plan

MODELS = """\
recipe: 1
name: models
stages:
  base: {script: [sh, -c, "echo 1 > $OUT/weights"]}
  tuned: {script: [sh, -c, "cat $INPUT_MODEL/weights > $OUT/weights"], inputs: {model: base}}
  card: {script: [sh, -c, "echo TEXT > $OUT/card"], inputs: {model: tuned}}
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, Plan]:
    """Programs in place of trainings, of which the last one reads the records of the others."""
    monkeypatch.setattr(product_checks, "_WITH_MODEL_CARD", ("script",))
    home = Home(tmp_path / "home")
    assert run_text(tmp_path, MODELS, home).succeeded
    return home, compile_text(tmp_path, MODELS)[0]


def lineage_of(home: Home, plan: Plan, id: str) -> list[tuple[str, bool]]:
    found = model_lineage(home.store.read(plan.step(id).key), home.store.find_manifest)
    return [(key, product is not None) for key, product in found]


def test_a_lineage_ends_where_the_store_has_no_product(models: tuple[Home, Plan]) -> None:
    home, plan = models
    keys = {step.id: step.key for step in plan.steps}
    assert lineage_of(home, plan, "tuned") == [(keys["tuned"], True), (keys["base"], True)]
    shutil.rmtree(home.store.root / keys["base"])
    assert lineage_of(home, plan, "tuned") == [(keys["tuned"], True), (keys["base"], False)]
    tuned, find = home.store.read(keys["tuned"]), home.store.find_manifest
    assert lineage_damage(tuned, find) is None
    missing = Damage(keys["base"], "it is missing from the store")
    assert lineage_damage(tuned, find, lambda key: key == keys["base"]) == missing


def test_manifests_that_refer_to_each_other_end_a_lineage(models: tuple[Home, Plan]) -> None:
    home, plan = models
    base, tuned = (home.store.read(plan.step(id).key) for id in ("base", "tuned"))
    values = {"input.model": {"key": tuned.key, "part": None}}
    circular = Product(base.key, base.folder, base.manifest.model_copy(update={"key_values": values}))
    found = model_lineage(tuned, {base.key: circular, tuned.key: tuned}.get)
    assert [key for key, _ in found] == [tuned.key, base.key]


@pytest.mark.parametrize("damaged", ["base", "tuned"])
def test_damaged_records_before_a_model_are_made_again(damaged: str, models: tuple[Home, Plan]) -> None:
    home, plan = models
    flip_bit(step_file(home, plan, damaged))
    result = run_text(home.root.parent, MODELS.replace("TEXT", "other"), home)
    expected = {"base": "cached", "tuned": "cached", damaged: "done", "card": "done"}
    assert result.states == expected
    assert "no damage found" in verify(home)[1]


def test_a_missing_product_before_a_model_does_not_hold_a_selected_step(models: tuple[Home, Plan]) -> None:
    home, plan = models
    shutil.rmtree(home.store.root / plan.step("base").key)
    changed, options = compile_text(home.root.parent, MODELS.replace("TEXT", "other"))
    only = RunOptions(recipe=options.recipe, selection=SelectionOptions(only=("card",)))
    assert run_plan(changed, home, only).states == {"base": "skipped", "tuned": "skipped", "card": "done"}

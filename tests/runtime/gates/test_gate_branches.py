"""The steps that run after a gate, for every verdict, and one run from the recipe to the products."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import TINY_RECIPE, run_command

from posttrain.runtime.execution.gate_state import closed_gate_state, is_gate_open
from posttrain.runtime.store.products import Product
from posttrain.spec.plan import SourceLocation, Step
from posttrain.spec.product_manifest import Manifest


def step(id: str, **params: Any) -> Step:
    place = SourceLocation(file="recipe.yaml", line=1, column=1)
    params = {"conditions": [], "correction": "holm", "seed": 1, **params}
    return Step(
        id=id, kind="gate", entry="x:y", params=params, place=place, key="", key_parts={}, key_values={}
    )


def decided(verdict: str) -> Product:
    return Product("", Path(), Manifest.model_construct(facts={"verdict": verdict}))


MORE = {"run": ["more", "recheck"]}


@pytest.mark.parametrize(
    ("on_fail", "on_inconclusive", "verdict", "going"),
    [
        ("stop", "stop", "pass", ["more", "other"]),
        ("stop", "stop", "fail", []),
        ("warn", "stop", "fail", ["more", "other"]),
        ("stop", "warn", "inconclusive", ["more", "other"]),
        ("warn", "stop", "inconclusive", []),
        ("stop", "pass", "inconclusive", ["more", "other"]),
        (MORE, "stop", "pass", ["other"]),
        (MORE, "stop", "fail", ["more"]),
        (MORE, "stop", "inconclusive", []),
        (MORE, "warn", "inconclusive", ["other"]),
        ("stop", MORE, "inconclusive", ["more"]),
        ("warn", MORE, "fail", ["other"]),
        (MORE, MORE, "inconclusive", ["more"]),
    ],
)
@pytest.mark.parametrize("leg", ["", "@size=1"])
def test_who_goes_on(on_fail: Any, on_inconclusive: Any, verdict: str, going: list[str], leg: str):
    gate = step(f"ship{leg}", on_fail=on_fail, on_inconclusive=on_inconclusive)
    found = [name for name in ("more", "other") if is_gate_open(gate, decided(verdict), step(f"{name}{leg}"))]
    assert found == going


def test_who_does_not_go_on_is_held_or_was_not_needed():
    gate = step("ship", on_fail=MORE, on_inconclusive="stop")
    assert closed_gate_state(gate, decided("pass"), step("more"))[0] == "skipped"
    assert closed_gate_state(gate, decided("fail"), step("other")) == ("held", "the gate ship failed")
    reason = closed_gate_state(gate, decided("inconclusive"), step("more"))[1]
    assert reason == "the gate ship was inconclusive, and this step belongs to another branch"


# The product of a stage in a branch: stages that read it belong to the branch too.
OWN = "  own: {from: never, steps: [{select: [prompt, completion]}]}\n"
STAGES = """\
stages:
  check: &check
    {eval: base, data: sums.test, reward: solution, metrics: {accuracy: right}, sampling: {max_tokens: 4}}
  low: {gate: [{metric: check.accuracy, at_most: 0.5}], on_fail: {run: never}}
  never: {generate: base, data: sums.test, sampling: {max_tokens: 4}}
  learnt: {train: sft, model: base, data: own, params: {max_steps: 1, batch_size: 4}}
  judged: {<<: *check, eval: learnt}
  high: {gate: [{metric: check.accuracy, at_least: 0.5}], on_fail: {run: repair}}
  repair: {export: base}
  repaired: {<<: *check, eval: repair}
  publish: {export: base}
"""


@pytest.mark.slow
def test_a_recipe_with_branches_from_beginning_to_end(tmp_path: Path):
    """With an untrained model, one gate passes and skips its branch, the next fails and runs its branch."""
    shutil.copytree(TINY_RECIPE, tmp_path / "recipe")
    recipe = tmp_path / "recipe" / "recipe.yaml"
    declared = recipe.read_text().partition("stages:\n")[0]
    recipe.write_text(declared.replace("rewards:\n", OWN + "rewards:\n") + STAGES)
    home = tmp_path / "home"
    done = run_command("run", recipe, "--home", home)
    assert done.returncode == 1, done.stdout + done.stderr
    shown = run_command("status", "--home", home).stdout
    ends = {
        "low": "done",
        "never": "skipped",
        "datasets.own": "skipped",
        "learnt": "skipped",
        "judged": "skipped",
        "high": "done",
        "repair": "done",
        "repaired": "done",
        "publish": "held",
    }
    for name, state in ends.items():
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [name]]
        assert state in line, shown
    report = next(home.glob("runs/*/report.html")).read_text()
    assert "It started repair and repaired and held back publish." in report
    assert "Wilson, exact binomial, p" in report
    alone = run_command("run", recipe, "--home", home, "--until", "judged")
    assert alone.returncode == 0, "skipped branches are not failures: " + alone.stdout + alone.stderr

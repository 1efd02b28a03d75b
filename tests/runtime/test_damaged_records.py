"""The manifest of a product has the digest of its step, which later steps read: damage of it is found and
handled like damage of a file."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.runtime.hostile_json import write_sealed
from tests.runtime.scripts_recipe import RECIPE, compile_text, run_text

from posttrain.cli.main import main
from posttrain.runtime import atomic_io
from posttrain.runtime.artifacts.product_card import product_card
from posttrain.runtime.errors import StepError
from posttrain.runtime.execution.adopt_stages import adopt_stages
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.inspection.published_product import find_published
from posttrain.runtime.inspection.run_lookup import DamagedProduct, find_product
from posttrain.runtime.secret_masking import mask_secrets
from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import last_run
from posttrain.runtime.verbs.model_card import product_lineage
from posttrain.spec.plan import Plan

MISMATCH = "record/step.json does not match the digest in its manifest"


class Reasons(RunObserver):
    """The reasons of the changes of the states of steps."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        self.texts.append(f"{id} {state}: {known.get('reason')}")


def flip_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def step_file(home: Home, plan: Plan, id: str) -> Path:
    return home.store.root / plan.step(id).key / "record" / "step.json"


def without_record_digests(product: Path) -> None:
    """Make the manifest that of an earlier release."""
    manifest = json.loads((product / "manifest.json").read_text())
    del manifest["record"]
    write_sealed(product / "manifest.json", manifest)


def verify(home: Home, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["verify", "--home", str(home.root), *options])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert run_text(folder, RECIPE, Home(folder / "home")).succeeded
    return folder


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Home:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return Home(tmp_path / "home")


@pytest.fixture
def plan(home: Home) -> Plan:
    return compile_text(home.root.parent, RECIPE)[0]


def test_the_manifest_has_the_digest_of_the_step(home: Home, plan: Plan) -> None:
    path = step_file(home, plan, "count")
    (name, found), *others = home.store.read(plan.step("count").key).manifest.record.items()
    assert (name, others) == ("step.json", [])
    assert (found.size, found.sha256) == (path.stat().st_size, atomic_io.sha256_file(path))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (flip_bit, MISMATCH),
        (lambda path: path.write_bytes(path.read_bytes()[:50]), MISMATCH),
        (Path.unlink, "record/step.json is missing"),
    ],
    ids=["flipped", "truncated", "missing"],
)
def test_verify_names_a_damaged_step_and_moves_the_product_aside(
    damage: Callable[[Path], object], problem: str, home: Home, plan: Plan
) -> None:
    damage(step_file(home, plan, "count"))
    status, text = verify(home)
    assert (status, problem in text) == (1, True), text
    status, text = verify(home, "--repair")
    assert (status, "quarantined" in text) == (0, True), text
    assert home.store.find_manifest(plan.step("count").key) is None
    assert run_text(home.root.parent, RECIPE, home).succeeded
    assert "no damage found" in verify(home)[1]


def test_a_run_makes_a_product_with_a_damaged_step_again(home: Home, plan: Plan) -> None:
    flip_bit(step_file(home, plan, "count"))
    seen = Reasons()
    result = run_text(home.root.parent, RECIPE.replace("2 *", "3 *"), home, seen)
    assert result.states == {"count": "done", "double": "done"}
    assert any(
        f"count waiting: its product is damaged ({MISMATCH}); quarantined" in one for one in seen.texts
    )
    assert "no damage found" in verify(home)[1]


def test_a_run_makes_a_product_without_its_step_again(home: Home, plan: Plan) -> None:
    step_file(home, plan, "count").unlink()
    seen = Reasons()
    assert run_text(home.root.parent, RECIPE, home, seen).states == {"count": "done", "double": "cached"}
    assert "count waiting: its product is damaged (a file is missing or has another size)" in seen.texts
    assert len(list(home.store.quarantined())) == 1
    assert "no damage found" in verify(home)[1]


def test_commands_refuse_a_product_with_a_damaged_step(home: Home, plan: Plan) -> None:
    flip_bit(step_file(home, plan, "count"))
    run = last_run(home)
    assert run is not None
    with pytest.raises(DamagedProduct, match=MISMATCH):
        find_product(home, run, "count")
    with pytest.raises(StepError, match=MISMATCH):
        find_published(home, run, "count")
    with pytest.raises(StepError, match=MISMATCH):
        product_card(home, run, home.store.read(plan.step("count").key), None)


def test_a_manifest_of_an_earlier_release_is_valid(home: Home, plan: Plan) -> None:
    folder = home.store.root / plan.step("count").key
    without_record_digests(folder)
    flip_bit(folder / "record" / "step.json")
    assert "no damage found" in verify(home)[1]
    assert set(run_text(home.root.parent, RECIPE, home).states.values()) == {"cached"}
    product = home.store.read(folder.name)
    assert "record" not in product.manifest.model_dump()
    (folder / "record" / "step.json").write_text("{}")
    with pytest.raises(StepError, match="the record of the product of `count`: ") as caught:
        product_lineage(folder)
    assert f"delete the folder {folder.name}" in caught.value.advice


def changed_environment(plan: Plan) -> Plan:
    """The plan with the keys of another environment."""
    step = plan.step("count")
    parts = {**step.key_parts, "environment": "1" * 64}
    values = {**step.key_values, "environment": {"other": "1"}}
    changed = step.model_copy(update={"key": "1" * 64, "key_parts": parts, "key_values": values})
    return plan.model_copy(update={"steps": (changed,)})


def test_an_adopted_product_keeps_the_digest(home: Home, plan: Plan) -> None:
    changed, recipe = changed_environment(plan), home.root.parent / "recipe.yaml"
    (adopted,) = adopt_stages(changed, home, ["count"], "same machine", recipe)
    assert adopted.outcome == "adopted", adopted
    before, after = (home.store.read(one.step("count").key) for one in (plan, changed))
    assert after.manifest.record == before.manifest.record
    assert "no damage found" in verify(home)[1]


def test_a_product_with_a_damaged_step_is_not_adopted(home: Home, plan: Plan) -> None:
    flip_bit(step_file(home, plan, "count"))
    recipe = home.root.parent / "recipe.yaml"
    (refused,) = adopt_stages(changed_environment(plan), home, ["count"], "same machine", recipe)
    assert (refused.outcome, MISMATCH in refused.reason) == ("refused", True), refused


@pytest.fixture
def work(home: Home, plan: Plan) -> Path:
    """The working directory of a step with a receipt."""
    work = home.workdir(plan.step("count").key)
    workdir.prepare(work, plan.step("count"), {}, home.root.parent)
    (work / "files").mkdir()
    workdir.write_receipt(work, plan.step("count").key, {}, {"seconds": 1.0})
    return work


def test_a_step_that_changed_before_the_commit_is_no_result(home: Home, work: Path) -> None:
    assert workdir.load_receipt(work) is not None
    flip_bit(work / "record" / "step.json")
    assert workdir.load_receipt(work) is None
    assert "its product does not match its receipt" in verify(home)[1]


def test_a_receipt_of_an_earlier_release_is_valid(home: Home, work: Path, plan: Plan) -> None:
    workdir.write_receipt(work, plan.step("count").key, {}, {"seconds": 1.0}, record={})
    assert "record" not in json.loads((work / "receipt.json").read_text())
    receipt = workdir.load_receipt(work)
    assert receipt is not None
    step = plan.step("count")
    assert workdir.commit(work, step, step.key, receipt, home.store).manifest.record == {}


def test_a_step_that_changed_during_its_run_fails_with_the_cause(tmp_path: Path) -> None:
    text = RECIPE.replace("echo counted", "echo >> $OUT/../record/step.json")
    seen = Reasons()
    assert not run_text(tmp_path, text, Home(tmp_path / "home"), seen).succeeded
    assert any("count failed: its product or its record has changed" in one for one in seen.texts), seen.texts


def test_secrets_are_not_masked_in_the_step(work: Path) -> None:
    before = (work / "record" / "step.json").read_bytes()
    (work / "record" / "log").write_text("the script")
    assert b'"script"' in before
    mask_secrets(work, ["script"])
    assert (work / "record" / "log").read_text() == "the ******"
    assert (work / "record" / "step.json").read_bytes() == before

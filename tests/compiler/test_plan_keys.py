"""Changes that do and do not change the key of a step, including known pitfalls."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.recipe_command import RECIPE_COMMAND, TINY_RECIPE

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Plan

STACK = {"torch": "2", "transformers": "5", "trl": "1", "duckdb": "1"}
SFT = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"


def plan_of(text: str, files: Mapping[str, bytes] | None = None, stack: Mapping[str, str] = STACK) -> Plan:
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(
        CompileRequest(source=source, catalog=CATALOG, read=(files or {}).get, stack=stack)
    )
    assert outcome.plan is not None, outcome.diagnostics
    return outcome.plan


def step_keys(plan: Plan) -> dict[str, str]:
    return {step.id: step.key for step in plan.steps}


def changed_steps(*changes: tuple[str, str]) -> set[str]:
    """The steps of the minimal recipe whose keys change with its text."""
    before, after = step_keys(plan_of(minimal_recipe())), step_keys(plan_of(minimal_recipe(*changes)))
    assert before.keys() == after.keys()
    return {id for id in before if before[id] != after[id]}


def test_swapped_values_change_the_key() -> None:
    one = plan_of(minimal_recipe(("batch_size: 4", "batch_size: 4, warmup_steps: 0.1, weight_decay: 0.2")))
    two = plan_of(minimal_recipe(("batch_size: 4", "batch_size: 4, warmup_steps: 0.2, weight_decay: 0.1")))
    assert one.step("sft").key != two.step("sft").key


def test_swapped_roles_change_the_key() -> None:
    script = "{script: [cat], inputs: {%s}}\n  check:"
    one = plan_of(minimal_recipe(("  check:", "  look: " + script % "a: sums.train, b: sums.test")))
    two = plan_of(minimal_recipe(("  check:", "  look: " + script % "a: sums.test, b: sums.train")))
    assert one.step("look").key != two.step("look").key


def test_the_bounds_of_a_list_are_part_of_the_key() -> None:
    one = plan_of(minimal_recipe(("  check:", "  look: {script: [echo, 'a b']}\n  check:")))
    two = plan_of(minimal_recipe(("  check:", "  look: {script: [echo, a, b]}\n  check:")))
    assert one.step("look").key != two.step("look").key


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (("epochs: 1", "epochs: 2"), {"sft", "check"}),
        (("num_hidden_layers: 2", "num_hidden_layers: 1"), {"models.base", "sft", "check"}),
        (("then: 1.0", "then: 2.0"), {"check"}),
        (("name: demo", "name: demo\nseed: 1"), {"models.base", "datasets.sums", "sft", "check"}),
        (("name: demo", "name: other"), set[str]()),
        (("name: demo", "name: demo\ndescription: said"), set[str]()),
        (("name: demo", "name: demo\ntracking: []"), set[str]()),
        (("batch_size: 4", "batch_size: 4, micro_batch_size: 2"), set[str]()),
        (("batch_size: 4", "batch_size: 4, save_steps: 3"), set[str]()),
        ((SFT, SFT.replace("}}", "}, retry: {attempts: 3}, timeout_minutes: 5, memory_gb: 9}")), set[str]()),
    ],
)
def test_a_change_reaches_what_depends_on_it_and_nothing_else(
    change: tuple[str, str], steps: set[str]
) -> None:
    assert changed_steps(change) == steps


def test_a_stage_more_changes_no_other() -> None:
    before = step_keys(plan_of(minimal_recipe()))
    more = step_keys(plan_of(minimal_recipe(("  check:", "  second: " + SFT + "\n  check:"))))
    assert {id: more[id] for id in before} == before


def test_the_content_of_a_file_is_part_of_the_key_and_its_name_elsewhere_is_not() -> None:
    text = minimal_recipe(
        ("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    chat_template: chat.jinja")
    )
    end = b"{{ messages }}{{ eos_token }}"
    one, two = plan_of(text, {"chat.jinja": end}), plan_of(text, {"chat.jinja": end + b" "})
    assert one.step("models.base").key != two.step("models.base").key
    assert one.step("datasets.sums").key == two.step("datasets.sums").key


def test_the_library_that_does_the_work_is_part_of_the_key() -> None:
    one, two = plan_of(minimal_recipe()), plan_of(minimal_recipe(), stack={**STACK, "trl": "2"})
    differing = {step.id for step in one.steps if step.key != two.step(step.id).key}
    assert differing == {"sft", "check"}  # the data step does not depend on it


def test_what_is_not_pinned_is_no_proof_and_nor_is_what_follows() -> None:
    text = minimal_recipe(
        (
            "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n",
            "    from: org/name\n",
        ),
        ("    tokenizer: {init: characters}\n", ""),
    )
    pinned = {step.id: step.pinned for step in plan_of(text).steps}
    assert pinned == {"models.base": False, "datasets.sums": True, "sft": False, "check": False}


def test_the_same_plan_in_any_folder_with_any_hash_seed(tmp_path: Path) -> None:
    texts: set[bytes] = set()
    for seed in ("0", "12345"):
        folder = Path(
            shutil.copytree(TINY_RECIPE, tmp_path / f"of {seed}", ignore=shutil.ignore_patterns(".recipe"))
        )
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC+{len(seed)}", "ANY": seed}
        command = [*RECIPE_COMMAND, "plan", str(folder), "--format", "json", "--home", str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, cwd=folder)
        texts.add(done.stdout)
    assert len(texts) == 1

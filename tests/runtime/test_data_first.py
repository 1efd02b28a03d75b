"""Datasets are built before any stage starts, and every stage is checked when its rows are counted."""

import json
from pathlib import Path

import pytest
from tests.recipe_command import run_command
from tests.runtime.scripts_recipe import compile_text

from posttrain.runtime.execution.data_first import independent_steps
from posttrain.runtime.preflight.schedules import check_schedule, count_rows
from posttrain.spec.plan import StepInput

# The files have an unknown number of rows when the recipe is compiled: `where` keeps one of them.
RECIPE = """
recipe: 1
name: late
models:
  base: {init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2},
      tokenizer: {init: characters}}
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 20}}}
  few: {from: sums, steps: [{where: "prompt = (SELECT min(prompt) FROM rows)"}]}
  none: {from: sums, steps: [{where: "length(prompt) > 1000"}]}
rewards:
  length:
    reads: {completion: text}
    nodes: {long: {score: {when: {present: completion}, then: 1.0, else: 0.0}}}
    returns: long
stages:
  sft: {train: sft, model: base, data: sums, params: {max_steps: 1, batch_size: 2}}
  grpo:
    train: grpo
    model: sft
    data: few
    reward: length
    params: {max_steps: 1, num_prompts: 8, num_generations: 2, max_completion_length: 4}
  after: {eval: grpo, data: none, reward: length, metrics: {long: long}}
"""


def write(folder: Path, text: str) -> Path:
    (folder / "recipe.yaml").write_text(text)
    return folder


def test_every_wrong_schedule_is_reported_before_any_training(tmp_path: Path) -> None:
    done = run_command("run", write(tmp_path, RECIPE), "--home", tmp_path / "home")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "> sft" not in done.stdout
    started = [line.split()[1] for line in lines if line.startswith("> ")]
    assert set(started) <= {"models.base", "datasets.sums", "datasets.few", "datasets.none"}
    failed = [number for number, line in enumerate(lines) if line.startswith("x ")]
    assert [lines[number].split()[1] for number in failed] == ["grpo", "after"]
    assert failed[1] - failed[0] == 2  # one list: a line of advice is between the two
    # The places of `params` and of `data` in their stages.
    assert "a generation batch needs 8 prompts, but the dataset has 1 (recipe.yaml:23:5)" in done.stdout
    assert "`after` reads `datasets.none`, which has no rows (recipe.yaml:24:23)" in done.stdout
    logs = run_command("logs", "grpo", "--follow", "--home", tmp_path / "home")
    assert logs.returncode == 1
    assert "`grpo` has not started (failed): `grpo` reads `datasets.few`: a generation batch" in logs.stderr
    assert "change the params of the stage" in logs.stderr


def test_the_data_of_a_product_is_checked_as_soon_as_it_exists(tmp_path: Path) -> None:
    text = RECIPE.replace("data: few\n", "data: written\n").replace("none, reward", "sums, reward")
    written = "  written: {generate: base, data: few, sampling: {max_tokens: 2, n: 1}}\n  sft: {train"
    text = text.replace("  sft: {train", written, 1)
    plan, _ = compile_text(tmp_path, text)
    assert independent_steps(plan) == {"datasets.sums", "datasets.few"}
    grpo = plan.step("grpo")
    assert list(check_schedule(grpo, {})) == []
    assert [one.steps for one in check_schedule(grpo, {"written": {"rows.all": 7}})] == [("grpo",)]
    assert list(check_schedule(grpo, {"written": {"rows.all": 8}})) == []


def test_a_dataset_that_reads_a_product_does_not_hold_back_the_stages(tmp_path: Path) -> None:
    text = RECIPE.replace(
        "rewards:", '  answers: {from: written, steps: [{where: "true"}]}\nrewards:'
    ).replace("data: few\n", "data: answers\n")
    written = "  written: {generate: base, data: few, sampling: {max_tokens: 2, n: 1}}\n  sft: {train"
    plan, _ = compile_text(tmp_path, text.replace("  sft: {train", written, 1))
    assert "datasets.answers" in {step.id for step in plan.steps}
    assert "datasets.answers" not in independent_steps(plan)


@pytest.mark.parametrize(("part", "count"), [(None, 20), ("test", 4), ("other", 0)])
def test_rows_of_a_part_are_counted(part: str | None, count: int) -> None:
    facts = {"datasets.sums": {"rows.train": 16, "rows.test": 4, "seconds": 9}}
    assert count_rows(StepInput(step="datasets.sums", part=part), facts) == count
    assert count_rows(StepInput(step="datasets.other", part=part), facts) is None
    assert count_rows(StepInput(step="script", part=part), {"script": {"files": 1}}) is None


def test_too_few_rows_for_the_examples_of_an_eval(tmp_path: Path) -> None:
    shots = "data: sums, few_shot: {num_fewshot: 4, data: few, answer: completion}, reward"
    plan, _ = compile_text(tmp_path, RECIPE.replace("data: none, reward", shots))
    facts = {"datasets.sums": {"rows.all": 20}, "datasets.few": {"rows.all": 3}}
    assert (
        "takes 4 few-shot examples from `datasets.few`, which has 3 rows"
        in next(check_schedule(plan.step("after"), facts)).cause
    )
    assert not list(check_schedule(plan.step("after"), facts | {"datasets.few": {"rows.all": 4}}))


def test_an_in_loop_eval_without_rows_is_an_error_of_the_training(tmp_path: Path) -> None:
    during = "params: {max_steps: 1, batch_size: 2}, evaluate: {eval_steps: 1, evals: [after]}}"
    plan, _ = compile_text(tmp_path, RECIPE.replace("params: {max_steps: 1, batch_size: 2}}", during))
    facts = {"datasets.sums": {"rows.all": 20}, "datasets.none": {"rows.all": 0}}
    (found,) = check_schedule(plan.step("sft"), facts)
    assert found.cause == "`sft` reads `datasets.none`, which has no rows"


def test_the_journal_has_the_reason(tmp_path: Path) -> None:
    run_command("run", write(tmp_path, RECIPE), "--home", tmp_path / "home")
    status = json.loads(run_command("status", "--format", "json", "--home", tmp_path / "home").stdout)
    steps = {step["id"]: step for step in status["steps"]}
    assert "needs 8 prompts" in steps["grpo"]["reason"]
    assert steps["sft"]["state"] == "blocked"

"""Evals of tiny models, from the recipe to the product: prompts, metrics, breakdowns, comparisons."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.events import read_events
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.store.products import Product

EVAL = "data: sums.test, reward: solution, metrics: {right: right, shaped: format}"
SHORT = "sampling: {max_tokens: 6}"


def of(product: Product, name: str) -> Any:
    return json.loads((product.files / name).read_text())


def rows(product: Product, name: str = "completions") -> list[dict[str, Any]]:
    return parquet.read_table(product.files / f"{name}.parquet").to_pylist()


@pytest.mark.slow
def test_a_trained_model_is_compared_with_what_it_began_as(bench: StageHarness):
    made = bench.run(
        recipe(
            f"check: {{eval: [base, sft], {EVAL}, {SHORT}, group_by: [answer]}}",
            "ship: {gate: [{metric: check.sft.shaped, better_than: check.base.shaped}], on_fail: warn}",
        )
    )
    metrics = of(made["check"], "metrics.json")
    assert {name.partition(".")[0] for name in metrics} == {"base", "sft"}
    assert metrics["sft.shaped"]["model"] == "sft"
    scored = rows(made["check"])
    assert [row["model"] for row in scored] == ["base"] * 17 + ["sft"] * 17
    assert scored[0]["prompt"] == scored[17]["prompt"]
    (result,) = [one for one in of(made["check"], "comparisons.json") if one["metric"] == "shaped"]
    difference = metrics["sft.shaped"]["value"] - metrics["base.shaped"]["value"]
    assert result["value"] == pytest.approx(difference)
    assert made["ship"].facts["conditions"][0]["value"] == pytest.approx(difference)
    broken = [one for one in of(made["check"], "breakdowns.json") if one["metric"] == "right"]
    assert {one["column"] for one in broken} == {"answer"}
    assert all(isinstance(one["group"], str) and isinstance(one["value"], float | None) for one in broken)
    for model in ("base", "sft"):
        assert sum(one["items"] for one in broken if one["model"] == model) == 17


@pytest.mark.slow
def test_it_is_said_when_completions_reach_beyond_the_context(bench: StageHarness):
    made = bench.run(
        recipe(
            f"short: {{eval: sft, {EVAL}, {SHORT}}}",
            f"long: {{eval: sft, {EVAL}, sampling: {{max_tokens: 62}}}}",
        )
    )
    assert _warnings(made["short"]) == []
    (said,) = _warnings(made["long"])
    assert said.startswith("17 of 17 prompts leave no room for 62 new tokens in the model's context of 64")


def _warnings(product: Product) -> list[str]:
    events = read_events(product.record / "events.jsonl")
    return [event["message"] for event in events if event["kind"] == "warning"]


@pytest.mark.slow
def test_pass_at_k_counts_samples_of_an_item(bench: StageHarness):
    made = bench.run(
        recipe(
            "check: {eval: sft, data: sums.test, reward: solution, metrics: {right: right,"
            " one: {pass_at: {node: right, k: 1}}, four: {pass_at: {node: right, k: 4}}},"
            " sampling: {max_tokens: 6, n: 4, temperature: 1.0}}"
        )
    )
    metrics = of(made["check"], "metrics.json")
    assert metrics["one"]["value"] == pytest.approx(metrics["right"]["value"])
    right: dict[int, bool] = {}
    for row in rows(made["check"]):
        right[row["item"]] = right.get(row["item"], False) or row["node:right"] > 0
    assert metrics["four"]["value"] == pytest.approx(sum(right.values()) / 17)
    assert metrics["four"]["low"] <= metrics["four"]["value"] <= metrics["four"]["high"]


@pytest.mark.slow
def test_shots_and_a_template_make_the_prompt(bench: StageHarness):
    files = {"ask.txt": "What is {prompt}{not a place}"}
    stage = (
        f"check: {{eval: base, {EVAL}, {SHORT}, prompts: plain, template: ask.txt,"
        " few_shot: {data: sums.train, num_fewshot: 2, target_delimiter: '>', fewshot_delimiter: '|'}}"
    )
    made = bench.run(recipe(stage), files)
    plan = compile_plan(recipe(stage), files)
    prompts = _prompts(bench, plan, made)
    train = {row["prompt"]: row["answer"] for row in rows(made["datasets.sums"], "train")}
    for row, prompt in zip(rows(made["datasets.sums"], "test"), prompts, strict=True):
        *shots, last = prompt.split("|")
        assert last == f"What is {row['prompt']}{{not a place}}"
        assert len(shots) == 2
        for shot in shots:
            asked, answer = shot.split(">")
            assert train[asked.removeprefix("What is ").removesuffix("{not a place}")] == answer
    assert (
        len({prompt.rpartition("|")[0] for prompt in prompts}) == 1
    )  # all rows get the same few-shot examples


def _prompts(bench: StageHarness, plan: Any, made: dict[str, Product]) -> list[str]:
    """The prompts of the step `check`, built in the same way as in the step."""
    from posttrain.runtime.events import EventWriter
    from posttrain.runtime.models.model_loader import load_tokenizer
    from posttrain.runtime.prompts import render_prompts
    from posttrain.runtime.rows_io import read_rows
    from posttrain.runtime.step_context import StepContext

    step = plan.step("check")
    context = StepContext(
        step=step,
        params=read_step_params(step),
        inputs={role: made[given.step].files for role, given in step.inputs.items()},
        files={role: bench.root / file.path for role, file in step.files.items()},
        out=bench.root,
        work=bench.root,
        events=EventWriter(Path("/dev/null")),
    )
    read = read_rows(context.inputs["data"], context.part("data"))
    return render_prompts(context, load_tokenizer(context.inputs["model"]), read)


@pytest.mark.slow
def test_a_row_is_no_shot_of_its_own(bench: StageHarness):
    stage = (
        f"check: {{eval: base, {EVAL}, {SHORT}, prompts: plain, few_shot: {{data: sums.test, num_fewshot:"
        " 16}}"
    )
    made = bench.run(recipe(stage))
    for row, prompt in zip(
        rows(made["datasets.sums"], "test"), _prompts(bench, compile_plan(recipe(stage)), made), strict=True
    ):
        asked = [shot.split(" ")[0] for shot in prompt.split("\n\n")]
        assert len(asked) == 17
        assert asked.count(row["prompt"]) == 1
        assert asked[-1] == row["prompt"]

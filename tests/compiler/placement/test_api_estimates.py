"""Tests the tokens and dollars of endpoint calls in the plan."""

from typing import Any

import pytest

from posttrain.compiler.api_costs.api_prices import find_price
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declarations import Endpoint
from posttrain.spec.plan import Plan

RECIPE = """
recipe: 1
name: calls
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}
    tokenizer: {init: characters}
endpoints:
  critic: {provider: openai, model: gpt-4o-mini, api_key: {env: KEY}JUDGE}
  odd: {provider: openrouter, model: some/model, api_key: {env: KEY}PRICE}
datasets:
  known:
    from: {rows: [{prompt: "12345678901234567890", answer: "2"}, {prompt: "1234567890", answer: "3"}]}
  sums: {from: {arithmetic: {digits: 1, count: 50}}}
  hidden: {from: {hub: {name: org/private, columns: {prompt: text, answer: text}}}}
rewards:
  good:
    reads: {completion: text, prompt: text}
    nodes:
      score: {judge: {endpoint: critic, rubric: "Is it right?", of: completion, max_tokens: 1000WHEN}}
    returns: score
stages:
  STAGES
"""
GRPO = (
    "it: {train: grpo, model: base, data: sums, reward: good, params: {max_steps: 10, num_prompts: 4,"
    " num_generations: 8, max_completion_length: 100%s}%s}"
)
EVAL = (
    "check: {eval: odd, data: %s, reward: good, metrics: {r: {mean: returns}},"
    " sampling: {n: 2, temperature: 1, max_tokens: 100}}"
)


def compile_plan(*stages: str, price: str = "", when: str = "", hardware: str = "", judge: str = "") -> Plan:
    text = RECIPE.replace("STAGES", "\n  ".join(stages)).replace("PRICE", price).replace("WHEN", when)
    text = text.replace("JUDGE", judge)
    text += hardware
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    return outcome.plan


def calls(plan: Plan, step: str) -> list[dict[str, Any]]:
    return (plan.step(step).estimate or {})["api"]


def endpoint(provider: Any, model: str, **more: Any) -> Endpoint:
    return Endpoint(provider=provider, model=model, **more)


def test_a_table_entry_is_found_by_the_model_and_its_dated_releases() -> None:
    for model in ("gpt-4o-mini", "gpt-4o-mini-2024-07-18"):
        price = find_price(endpoint("openai", model))
        assert price is not None
        assert (price.input, price.output) == (0.15, 0.6)
        assert load_table("api_prices")["openai"]["as_of"] in price.source
    assert find_price(endpoint("anthropic", "claude-sonnet-4-5-20250929")) is not None
    assert find_price(endpoint("openai", "gpt-4o-mini-large")) is None
    assert find_price(endpoint("vllm", "gpt-4o-mini", base_url="http://localhost:1/v1")) is None
    assert find_price(endpoint("openai", "gpt-4o", base_url="http://localhost:1/v1")) is None


def test_the_table_has_its_date_and_says_that_it_ages() -> None:
    table = dict(load_table("api_prices"))
    assert "change" in table.pop("about")
    for provider in table.values():
        assert provider["as_of"] >= "2025-11"
        assert all(0 < low < high for low, high in provider["models"].values())


def test_a_price_of_the_recipe_is_used() -> None:
    (found, _) = calls(compile_plan(EVAL % "known", price=", price: {input: 1, output: 10}"), "check")
    assert found["price"] == {"input": 1.0, "output": 10.0, "source": "the recipe's price"}
    assert found["dollars_max"] == pytest.approx(
        (found["input_tokens_max"] + 10 * found["output_tokens_max"]) / 1e6, abs=1e-4
    )


def test_a_price_is_no_part_of_a_key() -> None:
    plain, priced = (
        compile_plan(EVAL % "known", price=one) for one in ("", ", price: {input: 1, output: 1}")
    )
    assert [step.key for step in plain.steps] == [step.key for step in priced.steps]


def test_an_unknown_price_leaves_the_tokens_and_says_how_to_declare_it() -> None:
    (found, judged) = calls(compile_plan(EVAL % "known"), "check")
    assert "`endpoints.odd.price: {input: X, output: Y}`" in found["price_unknown"]
    assert "dollars_max" not in found
    assert found["output_tokens_max"] == 2 * 2 * 100
    assert judged["dollars_max"] > 0


def test_prompts_in_the_recipe_are_counted() -> None:
    (found, _) = calls(compile_plan(EVAL % "known"), "check")
    assert (found["calls_min"], found["calls_max"]) == (4, 4)
    assert found["input_tokens_min"] == 4 * (10 // 5 + 4)
    assert found["input_tokens_max"] == 4 * (7 + 10)


def test_unknown_rows_give_an_unknown_number_of_requests() -> None:
    (found, _) = calls(compile_plan(EVAL % "hidden"), "check")
    assert "not known" in found["unknown_reason"]
    assert "calls_max" not in found


def test_a_judge_gets_every_completion_of_a_training() -> None:
    (found,) = calls(compile_plan(GRPO % ("", "")), "it")
    assert (found["calls_min"], found["calls_max"]) == (320, 320)
    assert found["output_tokens_max"] == 320 * 1000
    (reused,) = calls(compile_plan(GRPO % (", num_iterations: 2", "")), "it")
    assert reused["calls_max"] == 160, "completions are generated once for two steps"


def test_a_judge_with_a_condition_may_get_none() -> None:
    when = ", when: {contains: {of: completion, part: {text: '1'}}}"
    (found,) = calls(compile_plan(GRPO % ("", ""), when=when), "it")
    assert (found["calls_min"], found["calls_max"], found["dollars_min"]) == (0, 320, 0)


def test_a_judge_of_an_in_loop_evaluation_is_in_the_plan_of_the_training() -> None:
    check = (EVAL % "known").replace("eval: odd", "eval: it")
    during = ", evaluate: {eval_steps: 4, evals: [check]}"
    (_, found) = calls(compile_plan(GRPO % ("", during), check), "it")
    assert found["calls_max"] == 3 * 2 * 2  # after 4, 8 and 10 steps
    assert "in-loop evaluation check" in found["purpose"]


def test_the_dollars_of_a_step_include_its_calls() -> None:
    step = compile_plan(GRPO % ("", "")).step("it")
    assert step.estimate is not None
    (found,) = step.estimate["api"]
    assert step.estimate["dollars"] == pytest.approx(
        (found["dollars_min"] + found["dollars_max"]) / 2, abs=0.01
    )


def test_turns_of_a_dialogue_are_counted_for_both_sides() -> None:
    stage = (
        "talk: {generate: critic, data: known, sampling: {max_tokens: 50},"
        " dialogue: {with: odd, max_turns: 4}}"
    )
    found = {one["endpoint"]: one for one in calls(compile_plan(stage), "talk")}
    assert {name: one["calls_max"] for name, one in found.items()} == {"critic": 8, "odd": 8}
    assert {name: one["output_tokens_max"] for name, one in found.items()} == {"critic": 400, "odd": 400}


def test_the_time_of_calls_depends_on_the_concurrency_of_the_endpoint() -> None:
    many, few = (
        compile_plan(EVAL % "sums", price=f", concurrency: {number}").step("check").estimate
        for number in (100, 10)
    )
    assert many is not None
    assert few is not None
    first, second = (one["parts"][0] for one in (many, few))
    assert first["why"] == "completions by odd, 100 at a time"
    assert first["seconds_max"] == pytest.approx(2 + 100 / 30, abs=0.1)  # all at once
    assert second["seconds_max"] == pytest.approx(10 * first["seconds_max"], rel=0.01)
    assert many["seconds"] == pytest.approx(sum(one["seconds"] for one in many["parts"]), abs=1)
    assert "30 to 120 tokens/s" in many["assumes"][-1]


def test_the_turns_of_a_dialogue_wait_for_each_other() -> None:
    stage = (
        "talk: {generate: critic, data: known, sampling: {max_tokens: 30},"
        " dialogue: {with: odd, max_turns: 4}}"
    )
    estimate = compile_plan(stage).step("talk").estimate
    assert estimate is not None
    assert {one["seconds_max"] for one in estimate["parts"]} == {4 * (2 + 30 / 30)}


def test_the_gpu_of_a_training_waits_for_its_judge() -> None:
    step = compile_plan(GRPO % ("", ""), hardware="hardware: {gpus: 1xH100-80GB}").step("it")
    assert step.estimate is not None
    (calls_part,) = (one for one in step.estimate["parts"] if one["name"] == "API calls")
    others = [one for one in step.estimate["parts"] if one is not calls_part]
    price = sum(one["dollars"] for one in others) / sum(one["seconds"] for one in others)
    assert price > 0
    assert calls_part["dollars"] == pytest.approx(price * calls_part["seconds"], rel=0.01)


def test_the_verdicts_of_a_step_wait_for_those_of_the_step_before() -> None:
    check = (EVAL % "known").replace("eval: odd", "eval: it")
    during = ", evaluate: {eval_steps: 4, evals: [check]}"
    hardware = "hardware: {gpus: 1xH100-80GB}"
    step = compile_plan(GRPO % ("", during), check, hardware=hardware, judge=", concurrency: 48").step("it")
    assert step.estimate is not None
    training, evaluation = (one for one in step.estimate["parts"] if one["name"] == "API calls")
    longest = 2 + 1000 / 30
    # 10 batches of 32 verdicts, and 3 evaluations of 4, each below the concurrency.
    assert training["seconds_max"] == pytest.approx(10 * longest, rel=0.01)
    assert "32 at a time" in training["why"]
    assert evaluation["seconds_max"] == pytest.approx(3 * longest, rel=0.01)


def test_an_unknown_number_of_requests_leaves_the_time_unknown() -> None:
    estimate = compile_plan(EVAL % "hidden").step("check").estimate
    assert estimate is not None
    assert "not known" in estimate["unknown_reason"]
    assert "seconds" not in estimate

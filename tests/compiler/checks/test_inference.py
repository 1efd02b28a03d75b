"""Tests inference: endpoints, engines, sampling, few-shot examples, templates, `keep` and dialogues."""

from typing import Any

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.stages.inference import choose_engine
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Plan

ENDPOINTS = """\
endpoints:
  gpt: {provider: openai, model: gpt-4.1, api_key: {env: OPENAI_API_KEY}, concurrency: 32,
      extra_body: {top_k: 5}}
  dated: {provider: openai, model: gpt-4.1-2025-04-14, pinned: true}
  claude: {provider: anthropic, model: claude-sonnet-4-5, api_key: {env: ANTHROPIC_API_KEY}}
rewards:"""
EVAL_STAGE = "  check: {eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}\n"
EVAL_ARGS = "data: sums.test, reward: right, metrics: {score: {mean: returns}}"


def compile_stages(*stages: str, more: str = "", **contents: str) -> CompileResult:
    lines = "".join(f"  {stage}\n" for stage in stages)
    text = minimal_recipe(("rewards:", ENDPOINTS), (EVAL_STAGE, lines)) + more
    files = {name.replace("_", "."): content.encode() for name, content in contents.items()}
    source = SourceFile("recipe.yaml", text.encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=files.get))


def codes(*stages: str, **contents: str) -> list[str]:
    return sorted(d.code for d in compile_stages(*stages, **contents).diagnostics)


def plan(*stages: str, more: str = "", **contents: str) -> Plan:
    found = compile_stages(*stages, more=more, **contents)
    assert found.plan is not None, found.diagnostics
    return found.plan


def test_an_endpoint_is_asked_over_http_by_the_name_of_its_key():
    step = plan(f"check: {{eval: gpt, {EVAL_ARGS}}}").step("check")
    asked = {"provider": "openai", "model": "gpt-4.1", "base_url": None, "extra_body": {"top_k": 5}}
    assert step.params["models"] == [{"name": "gpt", "role": "model", "engine": "http", "endpoint": asked}]
    access = {"api_key": "OPENAI_API_KEY", "concurrency": 32, "timeout_seconds": 300.0, "max_retries": 5}
    assert step.params["access"] == {"gpt": access}
    assert step.secrets == ("OPENAI_API_KEY",)
    assert step.resources.network
    assert set(step.inputs) == {"data"}


def test_what_only_reaches_an_endpoint_changes_no_key():
    def key(concurrency: int, model: str) -> str:
        text = minimal_recipe(("rewards:", ENDPOINTS), (EVAL_STAGE, f"  check: {{eval: gpt, {EVAL_ARGS}}}\n"))
        text = text.replace("concurrency: 32", f"concurrency: {concurrency}").replace("gpt-4.1,", f"{model},")
        found = compile_recipe(
            CompileRequest(source=SourceFile("r.yaml", text.encode()), catalog=CATALOG, read=lambda _: None)
        )
        assert found.plan is not None
        return found.plan.step("check").key

    assert key(32, "gpt-4.1") == key(4, "gpt-4.1") != key(32, "gpt-5")


@pytest.mark.parametrize(
    ("stage", "pinned"),
    [
        (f"check: {{eval: gpt, {EVAL_ARGS}}}", False),
        (f"check: {{eval: dated, {EVAL_ARGS}}}", True),
        (f"check: {{eval: [dated, gpt], {EVAL_ARGS}}}", False),
        (f"check: {{eval: sft, {EVAL_ARGS}}}", True),
        ("check: {generate: gpt, data: sums.test}", True),
    ],
)
def test_what_is_measured_is_pinned_when_its_name_is_and_what_is_written_always(stage: str, pinned: bool):
    assert plan(stage).step("check").pinned == pinned


@pytest.mark.parametrize(
    ("wanted", "endpoint", "has_gpus", "engine"),
    [
        ("auto", True, True, "http"),
        ("auto", False, True, "vllm"),
        ("auto", False, False, "transformers"),
        ("transformers", False, True, "transformers"),
        ("vllm", False, False, "vllm"),
    ],
)
def test_the_engine_goes_by_what_is_asked_and_where(wanted: str, endpoint: bool, has_gpus: bool, engine: str):
    assert choose_engine(wanted, endpoint=endpoint, has_gpus=has_gpus) == engine


def test_several_models_are_inputs_each_and_their_metrics_have_their_names():
    made = plan(
        f"check: {{eval: [base, sft, claude], {EVAL_ARGS}}}",
        "ship: {gate: [{metric: check.sft.score, better_than: check.base.score},"
        " {metric: check.sft.truncated, at_most: 0.5}]}",
    )
    step = made.step("check")
    assert set(step.inputs) == {"model:base", "model:sft", "data"}
    assert step.params["multiple_models"]
    conditions = made.step("ship").params["conditions"]
    assert conditions[0]["metric"] == {"eval": "check", "name": "sft.score"}
    assert conditions[1]["metric"] == {"eval": "check", "name": "sft.truncated"}


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("https://api.example.com/v1", True),
        ("http://127.0.0.1:8000", True),
        ("https://name:secret@api.example.com/v1", False),
        ("https://api.example.com/v1?key=secret", False),
        ("api.example.com", False),
        ("file:///etc/passwd", False),
    ],
)
def test_a_url_is_an_address_and_holds_no_secret(url: str, fine: bool):
    text = minimal_recipe(
        ("rewards:", f"endpoints:\n  one: {{provider: vllm, model: m, base_url: '{url}'}}\nrewards:")
    )
    request = CompileRequest(source=SourceFile("r.yaml", text.encode()), catalog=CATALOG, read=lambda _: None)
    found = [d.code for d in compile_recipe(request).diagnostics]
    assert found == ([] if fine else ["PT0204"])


SAMPLING = "sampling: {n: 4, temperature: 1.0}"


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        (f"check: {{eval: [], {EVAL_ARGS}}}", "PT0671"),
        (f"check: {{eval: [sft, base, sft], {EVAL_ARGS}}}", "PT0671"),
        (f"check: {{eval: gemini, {EVAL_ARGS}}}", "PT0301"),
        (f"check: {{eval: claude, prompts: plain, {EVAL_ARGS}}}", "PT0671"),
        (f"check: {{eval: gpt, engine: transformers, {EVAL_ARGS}}}", "PT0671"),
        (f"check: {{eval: gpt, {EVAL_ARGS}, sampling: {{stop: [x]}}}}", "PT0671"),
        (f"check: {{eval: gpt, {EVAL_ARGS}, sampling: {{continuous_batching: true}}}}", "PT0671"),
        (f"check: {{eval: sft, {EVAL_ARGS}, sampling: {{n: 2}}}}", "PT0672"),
        (f"check: {{eval: sft, {EVAL_ARGS}, group_by: [level]}}", "PT0408"),
        (f"check: {{eval: sft, {EVAL_ARGS}, template: none.txt}}", "PT0409"),
        (f"check: {{eval: sft, {EVAL_ARGS}, few_shot: {{data: sums.train, num_fewshot: 64}}}}", ""),
        (f"check: {{eval: sft, {EVAL_ARGS}, few_shot: {{data: few}}}}", "PT0301"),
        (f"check: {{eval: sft, {EVAL_ARGS}, few_shot: {{data: sums.part}}}}", "PT0405"),
        ("more: {generate: sft, data: sums.train, keep: {min_score: 0.5}}", "PT0675"),
        (
            f"more: {{generate: sft, data: sums.train, reward: right, keep: {{min_score: 2}}, {SAMPLING}}}",
            "PT0675",
        ),
        (
            f"more: {{generate: sft, data: sums.train, reward: right, keep: {{min_score: 0}}, {SAMPLING}}}",
            "PT0675",
        ),
        (f"more: {{generate: sft, data: sums.train, reward: right, keep: {{min_score: 1}}, {SAMPLING}}}", ""),
        ("more: {generate: sft, data: sums.train, reward: right, keep: pair}", "PT0672"),
        (
            "talk: {generate: sft, data: sums.train, reward: right, dialogue: {with: gpt, max_turns: 2}}",
            "PT0676",
        ),
        (
            "talk: {generate: sft, data: sums.train, prompts: plain, dialogue: {with: gpt, max_turns: 2}}",
            "PT0676",
        ),
        ("talk: {generate: sft, data: sums.train, dialogue: {with: sums, max_turns: 2}}", "PT0302"),
        (
            "talk: {generate: sft, data: sums.train, dialogue: {with: gpt, max_turns: 2, system: 'Be {x}'}}",
            "PT0676",
        ),
        (
            (
                "talk: {generate: sft, data: sums.train, dialogue: {with: gpt, max_turns: 2, system:"
                " '{answer} {}'}}"
            ),
            "",
        ),
    ],
)
def test_what_cannot_be_asked_is_said(stage: str, code: str):
    found = [one for one in codes(stage) if one != "PT0504"]
    assert set(found) - {"PT0304"} == ({code} if code else set())


@pytest.mark.parametrize(
    ("metric", "code"),
    [
        ("{pass_at: {node: returns, k: 4}}", ""),
        ("{pass_at: {node: returns, k: 5}}", "PT0672"),
        ("{pass_at: {node: returns, k: 0}}", "PT0611"),
        ("{pass_at: {node: returns, k: true}}", "PT0611"),
        ("{pass_at: {node: returns}}", "PT0611"),
        ("{pass_at: {node: wrong, k: 2}}", "PT0611"),
        ("{pass_at: returns}", "PT0611"),
    ],
)
def test_pass_at_k_needs_k_samples_of_a_condition(metric: str, code: str):
    stage = f"check: {{eval: sft, data: sums.test, reward: right, metrics: {{m: {metric}}}, {SAMPLING}}}"
    assert codes(stage) == ([code] if code else [])


def test_a_list_of_models_does_not_hide_a_metric_without_its_model():
    found = codes(
        f"check: {{eval: [base, sft], {EVAL_ARGS}}}", "ship: {gate: [{metric: check.score, at_least: 0.1}]}"
    )
    assert found == ["PT0702"]


def test_prompts_that_are_conversations_take_no_template_and_no_shots():
    steps: Any = ("- split:", "- derive: {prompt: \"[{'role': 'user', 'content': prompt}]\"}\n      - split:")
    text = minimal_recipe(
        steps,
        (
            EVAL_STAGE,
            f"  check: {{eval: sft, {EVAL_ARGS}, template: t.txt, few_shot: {{data: sums.train}}}}\n",
        ),
    )
    files = {"t.txt": b"{prompt}"}
    request = CompileRequest(source=SourceFile("r.yaml", text.encode()), catalog=CATALOG, read=files.get)
    found = {d.code for d in compile_recipe(request).diagnostics}
    assert {"PT0673", "PT0674"} <= found


@pytest.mark.parametrize(
    ("stage", "columns"),
    [
        ("made: {generate: sft, data: sums.train}", {"completion", "finish"}),
        (
            f"made: {{generate: sft, data: sums.train, reward: right, keep: best, {SAMPLING}}}",
            {"completion", "finish", "score"},
        ),
        (
            f"made: {{generate: sft, data: sums.train, reward: right, keep: pair, {SAMPLING}}}",
            {"chosen", "rejected", "chosen_score", "rejected_score"},
        ),
        (
            "made: {generate: sft, data: sums.train, dialogue: {with: gpt, max_turns: 2}}",
            {"messages", "turns", "finish"},
        ),
    ],
)
def test_what_is_written_has_known_columns(stage: str, columns: set[str]):
    more = "  again: {generate: base, data: rows}\n"
    text = minimal_recipe(
        (
            "rewards:",
            "  rows: {from: made, steps: [{select: [prompt, "
            + ", ".join(sorted(columns))
            + "]}]}\n"
            + ENDPOINTS,
        ),
        (EVAL_STAGE, f"  {stage}\n"),
    )
    request = CompileRequest(
        source=SourceFile("r.yaml", (text + more).encode()), catalog=CATALOG, read=lambda _: None
    )
    found = compile_recipe(request)
    assert [d for d in found.diagnostics if d.severity == "error"] == []


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ("{top_k: 5}", "top_k has no effect at temperature 0, which is greedy decoding"),
        ("{top_p: 0.9}", "top_p has no effect at temperature 0, which is greedy decoding"),
        ("{min_p: 0.1}", "min_p has no effect at temperature 0, which is greedy decoding"),
        ("{seed: 4}", "seed has no effect at temperature 0, which is greedy decoding"),
        ("{repetition_penalty: 1.2}", None),
        ("{temperature: 1.0, top_k: 5, min_p: 0.1, seed: 4, repetition_penalty: 1.2}", None),
        (
            "{repetition_penalty: 1.2, continuous_batching: true}",
            "transformers ignores repetition_penalty with continuous batching: remove one of the two",
        ),
    ],
)
def test_sampling_that_would_be_ignored_is_refused(sampling: str, message: str | None) -> None:
    found = compile_stages(f"check: {{eval: sft, {EVAL_ARGS}, sampling: {sampling}}}")
    assert [one.message for one in found.diagnostics] == ([message] if message else [])


@pytest.mark.parametrize(
    ("model", "option", "supported"),
    [
        ("gpt", "top_k: 5", False),
        ("gpt", "min_p: 0.1", False),
        ("gpt", "repetition_penalty: 1.1", False),
        ("gpt", "seed: 3", True),
        ("claude", "top_k: 5", True),
        ("claude", "min_p: 0.1", False),
        ("claude", "seed: 3", False),
    ],
)
def test_an_endpoint_refuses_sampling_that_its_provider_does_not_have(
    model: str, option: str, supported: bool
) -> None:
    sampling = f"{{temperature: 1.0, {option}}}"
    found = compile_stages(f"check: {{eval: {model}, {EVAL_ARGS}, sampling: {sampling}}}").diagnostics
    assert [one.code for one in found if one.severity == "error"] == ([] if supported else ["PT0671"])


def test_the_seed_of_the_sampling_is_the_seed_of_the_step() -> None:
    def step(sampling: str, seed: int = 0) -> Any:
        found = plan(f"check: {{eval: sft, {EVAL_ARGS}, sampling: {sampling}}}", more=f"seed: {seed}\n")
        return found.step("check")

    fixed = step("{temperature: 1.0, seed: 11}")
    assert fixed.params["seed"] == 11
    assert fixed.params["seed"] == step("{temperature: 1.0, seed: 11}", seed=1).params["seed"]
    assert step("{temperature: 1.0}").params["seed"] != step("{temperature: 1.0}", seed=1).params["seed"]
    assert fixed.key != step("{temperature: 1.0}").key
    assert "seed" not in fixed.params["sampling"]

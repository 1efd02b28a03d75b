"""The secrets of each step: only steps that read from or write to the hub have its token."""

import pytest

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Plan

STACK = dict.fromkeys(("torch", "transformers", "trl", "duckdb", "datasets", "lm_eval"), "1")
RECIPE = """\
recipe: 1
name: secrets
models:
  published: {from: Qwen/Qwen2.5-0.5B}
  random:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2}
    tokenizer: {init: characters}
endpoints:
  teacher: {provider: openai, model: m, api_key: {env: TEACHER_KEY}}
datasets:
  texts: {from: {hub: {name: org/name, columns: {prompt: text, completion: text}}}}
  rows: {from: {arithmetic: {digits: 1, count: 20, seed: 1}}, steps: [{split: {test: 5}}]}
stages:
  sft: {train: sft, model: published, data: texts, params: {max_steps: 2}}
  ask: {generate: teacher, data: rows.test}
  look: {script: [cat], inputs: {rows: rows.test}, network: true}
  bench: {benchmark: sft, tasks: [gsm8k]}
  local: {export: sft, push: {folder: out}}
  push: {export: sft, push: {hub: me/out}}
  other: {export: sft, push: {hub: me/other, token: {env: WRITE_KEY}}}
  scratch: {script: [cat], inputs: {model: random}}
"""
SECRETS = {
    "models.published": ("HF_TOKEN",),
    "models.random": (),
    "datasets.texts": ("HF_TOKEN",),
    "datasets.rows": (),
    "sft": (),
    "ask": ("TEACHER_KEY",),
    "look": (),
    "bench": ("HF_TOKEN",),
    "local": (),
    "push": ("HF_TOKEN",),
    "other": ("WRITE_KEY",),
    "scratch": (),
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    source = SourceFile("recipe.yaml", RECIPE.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None, stack=STACK))
    assert outcome.plan is not None, [each.message for each in outcome.diagnostics]
    return outcome.plan


def test_a_step_has_only_the_secrets_that_it_uses(plan: Plan) -> None:
    assert {step.id: step.secrets for step in plan.steps} == SECRETS


def test_a_step_with_a_secret_has_network(plan: Plan) -> None:
    assert [step.id for step in plan.steps if step.secrets and not step.resources.network] == []


def test_the_name_of_a_secret_is_in_no_key(plan: Plan) -> None:
    assert [
        step.id for step in plan.steps if any(name in str(step.key_values) for name in step.secrets)
    ] == []

"""Tests that a sandbox that cannot work in the container of a stage is reported before the run."""

import pytest
from tests.compiler.checks.stage_compilation import diagnostics_of

from posttrain.compiler.checks.sandbox_in_container import NO_SANDBOX

IMAGE = f"registry.example/posttrain-cpu@sha256:{'6d4c7a3f0e1b2958' * 4}"
RECIPE = """\
recipe: 1
name: programs
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}
    tokenizer: {init: characters}
datasets:
  tasks:
    from: {arithmetic: {digits: 2, count: 200}}
    steps:
      - split: {test: 100}
rewards:
  passes:
    reads: {completion: text, answer: text}
    nodes:
      works: {code_tests: {of: completion, tests: answer MORE}}
    returns: works
stages:
  sft: {train: sft, model: base, data: tasks.train, params: {epochs: 1, batch_size: 4} DURING}
  check: {eval: sft, data: tasks.test, reward: passes, metrics: {passed: {mean: works}} HELD}
"""
CONTAINER = f", container: {{image: '{IMAGE}'}}"
INLOOP_EVAL = ", evaluate: {eval_steps: 5, evals: [check]}"


def sandbox_diagnostics(**words: str) -> list[tuple[str, int, str]]:
    text = RECIPE
    for word in ("MORE", "DURING", "HELD"):
        text = text.replace(f" {word}", words.get(word.lower(), ""))
    return [(one.code, one.span.line, one.message) for one in diagnostics_of(text)]


@pytest.mark.parametrize("more", ["", ", sandbox: namespaces"])
def test_namespaces_cannot_be_made_in_a_container(more: str):
    ((code, line, message),) = sandbox_diagnostics(held=CONTAINER, more=more)
    assert (code, line) == (NO_SANDBOX.id, 16)
    assert "`check`" in message


def test_a_training_stage_measures_in_its_own_container():
    found = sandbox_diagnostics(during=INLOOP_EVAL + CONTAINER)
    assert [(code, "`sft`" in message) for code, _, message in found] == [(NO_SANDBOX.id, True)]


def test_what_can_be_made_is_not_told():
    assert sandbox_diagnostics() == []
    assert sandbox_diagnostics(during=INLOOP_EVAL) == []
    assert sandbox_diagnostics(held=CONTAINER, more=", sandbox: landlock") == []

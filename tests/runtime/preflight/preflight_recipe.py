"""Compiles a recipe and checks it as `recipe run` does before the first step."""

from collections.abc import Sequence
from pathlib import Path

from posttrain.cli.compile import compile_file
from posttrain.runtime.machine import Machine
from posttrain.runtime.preflight.finding import Finding
from posttrain.runtime.preflight.run_preflight import run_preflight
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan

HEAD = """\
recipe: 1
name: checked
models:
  small:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2}
    tokenizer: {init: characters}
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 40}}}
"""
REWARD = """\
rewards:
  own:
    reads: {completion: text, answer: text}
    returns: {python: {call: "grade.py:grade", with: {text: completion, answer: answer}}}
stages:
  check: {eval: small, data: sums, reward: own, metrics: {own: {mean: returns}}}
"""
# Large enough for every step of these tests.
MACHINE = Machine(cpus=64, memory_gb=1000.0, gpus=("0",))


def compile_plan(folder: Path, text: str) -> Plan:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.yaml").write_text(text)
    outcome, _ = compile_file(folder / "recipe.yaml", (), ())
    assert outcome.plan is not None, [one.message for one in outcome.diagnostics]
    return outcome.plan


def check(folder: Path, text: str, selected: Sequence[str] | None = None) -> tuple[Finding, ...]:
    plan = compile_plan(folder, text)
    return run_preflight(plan, Home(folder / "home"), folder, selected, MACHINE)


def brief(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """Severity, check and cause of each finding."""
    return [(one.severity, one.check, one.cause) for one in findings]

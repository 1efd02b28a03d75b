"""Tests the number of rows if it is known only at run time: set, published or unknown."""

from typing import Any

import pytest

from posttrain.compiler.facts.published_rows import published_row_count
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Plan

TEXT = """\
recipe: 1
name: hub
hardware: {gpus: 1xA100-80GB}
models:
  base: {from: Qwen/Qwen2.5-0.5B-Instruct, revision: 7ae557604adf67be50417f59c2c2f167def9a775}
datasets:
  pairs:
    from: {hub: {name: NAME, config: CONFIG, columns: {question: text, answer: text}}}
    steps:
      - rename: {question: prompt, answer: completion}
      - split: {test: 0.1}
rewards:
  right:
    reads: {completion: text}
    returns: {score: {when: {contains: {of: completion, part: {text: "7"}}}, then: 1}}
stages:
  sft: {train: sft, model: base, data: pairs.train, params: {epochs: 1, batch_size: 10}}
  check: {eval: sft, data: pairs.test, reward: right, metrics: {right: {mean: returns}}}
  ship: {gate: [{metric: check.right, at_least: 0.99, confidence: 0.99}]}
"""


def compile_plan(name: str, config: str, size: int | None = None) -> Plan:
    text = TEXT.replace("NAME", name).replace("CONFIG", config)
    if size is not None:
        text = text.replace("    steps:\n", f"    size: {size}\n    steps:\n")
    stack = {"torch": "2", "transformers": "5", "trl": "1", "duckdb": "1"}
    source = SourceFile("recipe.yaml", text.encode())
    found = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None, stack=stack))
    assert found.plan is not None, [(d.code, d.message) for d in found.diagnostics]
    return found.plan


def stage_estimates(made: Plan) -> dict[str, Any]:
    return {step.id: step.estimate for step in made.steps if step.estimate is not None}


def test_without_a_number_the_time_is_told_to_be_unknown_with_what_to_do() -> None:
    found = stage_estimates(compile_plan("org/private", "main"))
    for name in ("sft", "check"):
        assert "seconds" not in found[name]
        assert "`size`" in found[name]["unknown_reason"]
        assert found[name]["memory_gb"] > 0


def test_a_size_gives_the_time_and_says_that_it_did() -> None:
    small, large = (stage_estimates(compile_plan("org/private", "main", size)) for size in (10_000, 100_000))
    for name in ("sft", "check"):
        assert "unknown_reason" not in small[name]
        assert small[name]["seconds"] < large[name]["seconds"]
    assert "about 9000 rows, from `size`" in small["sft"]["assumes"]
    assert "about 1000 rows, from `size`" in small["check"]["assumes"]


def test_a_size_is_no_part_of_a_key_and_decides_nothing() -> None:
    """Two rows are too few for the gate, but the number is only an estimate."""
    without, guessed = compile_plan("org/private", "main"), compile_plan("org/private", "main", 20)
    assert {s.id: s.key for s in without.steps} == {s.id: s.key for s in guessed.steps}
    assert {s.id: s.expect for s in without.steps} == {s.id: s.expect for s in guessed.steps}


def test_published_numbers_are_used() -> None:
    found = stage_estimates(compile_plan("openai/gsm8k", "main"))
    assert "about 6726 rows, as published" in found["sft"]["assumes"]
    assert found["sft"]["seconds"] > 0


@pytest.mark.parametrize(
    ("params", "rows"),
    [
        ({"name": "openai/gsm8k", "config": "main", "split": "test"}, 1319),
        ({"name": "openai/gsm8k", "config": None, "split": "test"}, None),
        ({"name": "openai/gsm8k", "config": "main", "split": "train[:10]"}, None),
        ({"name": "org/unknown", "config": "main", "split": "train"}, None),
    ],
)
def test_a_part_of_a_split_is_not_known(params: dict[str, str | None], rows: int | None) -> None:
    assert published_row_count(params) == rows

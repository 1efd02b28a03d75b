"""Tests what passes between training stages: adapters, reference models and reward models."""

import json

import pytest
from tests.compiler.checks.stage_compilation import codes_of, diagnostics_of, stage_recipe

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

LORA = "adapter: {r: 16, lora_alpha: 32}"


def two_stages(first: str, second: str) -> str:
    """Return a recipe with two training stages, the second on the model of the first."""
    one = stage_recipe("sft", first)
    return one.replace("  check:", f"  then: {{model: sft, data: sums.train, {second}}}\n  check:")


@pytest.mark.parametrize(
    ("second", "codes"),
    [
        ("train: dpo", []),
        ("train: dpo, adapter: {existing_adapter: continue}", []),
        ("train: dpo, adapter: {r: 16}", []),
        ("train: dpo, adapter: {r: 8}", ["PT0643"]),
        ("train: dpo, adapter: {r: 8, lora_alpha: 16}", ["PT0643", "PT0643"]),
        ("train: dpo, adapter: {target_modules: [q_proj]}", ["PT0643"]),
        ("train: dpo, adapter: {r: 8, existing_adapter: merge}", []),
        ("train: dpo, adapter: {type: full}", []),
        ("train: reward_model, adapter: {r: 8}", []),  # the adapter of a reward model is a different adapter
    ],
)
def test_an_adapter_that_goes_on_keeps_its_shape(second: str, codes: list[str]) -> None:
    assert codes_of(two_stages(LORA, second)) == codes


@pytest.mark.parametrize(
    ("second", "codes"),
    [("train: dpo", []), ("train: dpo, adapter: {r: 32}", []), ("train: dpo, adapter: {r: 16}", ["PT0643"])],
)
def test_an_adapter_that_changed_the_base_goes_on_with_twice_the_rank(second: str, codes: list[str]) -> None:
    assert codes_of(two_stages("adapter: {r: 16, init_lora_weights: pissa}", second)) == codes


@pytest.mark.parametrize("type_", ["ia3", "vera"])
def test_an_adapter_whose_start_is_not_copied_cannot_be_its_own_reference(type_: str) -> None:
    first = f"adapter: {{type: {type_}}}"
    assert codes_of(two_stages(first, "train: dpo")) == ["PT0693"]
    assert codes_of(two_stages(first, "train: dpo, reference: sft")) == []
    assert codes_of(two_stages(first, "train: sft")) == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (stage_recipe("sft", "adapter: {target_modules: [q_proj, v_proj]}"), []),
        (stage_recipe("sft", "adapter: {target_modules: [model.layers.0.self_attn.q_proj]}"), []),
        (stage_recipe("sft", "adapter: {target_modules: [query_key_value]}"), ["PT0641"]),
        (stage_recipe("sft", "adapter: {target_modules: [q_proj]}", hub=True), []),
        (stage_recipe("sft", "adapter: {target_modules: [c_attn]}", hub=True), ["PT0641"]),
        (stage_recipe("sft", "adapter: {}").replace("model_type: qwen2", "model_type: gpt2"), []),
        (
            stage_recipe("sft", "adapter: {target_modules: [c_attn]}").replace(
                "model_type: qwen2", "model_type: gpt2"
            ),
            [],
        ),
    ],
)
def test_targets_are_those_of_the_architecture(text: str, codes: list[str]) -> None:
    assert codes_of(text) == codes


def test_a_target_that_is_nearly_right_is_named() -> None:
    (found,) = diagnostics_of(stage_recipe("sft", "adapter: {target_modules: [q_prj]}"))
    assert found.help.startswith("did you mean `q_proj`? modules of this model: ")


@pytest.mark.parametrize(
    ("method", "more", "codes"),
    [
        ("dpo", "reference: base", []),
        ("kto", "reference: base", []),
        ("orpo", "reference: base", ["PT0652"]),
        ("reward_model", "reference: base", ["PT0652"]),
        ("grpo", "reward: right, reference: base, params: {max_steps: 9}", ["PT0652"]),
        ("grpo", "reward: right, reference: base, params: {max_steps: 9, beta: 0.05}", []),
        (
            "grpo",
            "reward: right, reference: base, adapter: {}, params: {max_steps: 9, beta: 0.05}",
            ["PT0652"],
        ),
        ("grpo", "reward: right, adapter: {}, params: {max_steps: 9, beta: 0.05}", []),
        ("dpo", "adapter: {}, params: {ref_model_sync_steps: 4}", ["PT0646"]),
        ("dpo", "params: {ref_model_sync_steps: 4}", []),
    ],
)
def test_references(method: str, more: str, codes: list[str]) -> None:
    assert codes_of(stage_recipe(method, more)) == codes


@pytest.mark.parametrize(
    ("method", "dropout", "codes"),
    [("sft", 0.1, []), ("dpo", 0.1, ["PT0645"]), ("dpo", 0.0, []), ("kto", 0.1, ["PT0645"])],
)
def test_dropout_that_is_turned_off(method: str, dropout: float, codes: list[str]) -> None:
    assert codes_of(stage_recipe(method, f"adapter: {{lora_dropout: {dropout}}}")) == codes


def test_dropout_that_is_kept() -> None:
    assert codes_of(stage_recipe("dpo", "adapter: {lora_dropout: 0.1}, trl: {disable_dropout: false}")) == []


@pytest.mark.parametrize(
    ("second", "codes"),
    [("train: reward_model", []), ("train: dpo", ["PT0653"])],
)
def test_a_scorer_does_not_write(second: str, codes: list[str]) -> None:
    text = (
        two_stages("", second).replace("train: sft", "train: reward_model").replace("eval: sft", "eval: base")
    )
    assert codes_of(text) == codes


def test_an_adapter_without_modules_is_refused() -> None:
    assert codes_of(stage_recipe("sft", "adapter: {target_modules: []}")) == ["PT0204"]


SCORERS = """\
recipe: 1
name: scorers
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2}
    tokenizer: {init: characters}
  judge: {from: ./judge}
datasets:
  pairs: {from: {rows: [{prompt: a, chosen: b, rejected: c}]}}
  sums: {from: {arithmetic: {digits: 1, count: 200}}}
rewards:
  exact:
    reads: {completion: text, answer: text}
    nodes: {same: {score: {when: {equal: {of: completion, to: answer}}, then: 1.0, else: 0.0}}}
    returns: same
stages:
  rm: {train: reward_model, model: base, data: pairs, params: {max_steps: 1, batch_size: 1}}
  copied: {export: rm}
  last: STAGE
"""
EVAL = "{eval: %s, data: sums, reward: exact, metrics: {same: {mean: same}}}"


@pytest.mark.parametrize(
    ("stage", "named"),
    [
        (EVAL % "base", ""),
        (EVAL % "rm", "rm"),
        (EVAL % "copied", "copied"),
        (EVAL % "[base, copied]", "copied"),
        (EVAL % "judge", "judge"),
        ("{generate: judge, data: sums}", "judge"),
        ("{train: sft, model: judge, data: sums, params: {max_steps: 1, batch_size: 1}}", "judge"),
        ("{train: reward_model, model: judge, data: pairs, params: {max_steps: 1, batch_size: 1}}", ""),
    ],
)
def test_what_returns_scores_cannot_generate(stage: str, named: str) -> None:
    """Also through an export, in a list, and for a classifier in a folder."""
    files = {
        "recipe.yaml": SCORERS.replace("STAGE", stage).encode(),
        "judge/config.json": json.dumps(
            {"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]}
        ).encode(),
        "judge/model.safetensors": b"x",
        "judge/tokenizer.json": b"{}",
    }
    source = SourceFile("recipe.yaml", files["recipe.yaml"])
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=files.get))
    found = [one.message for one in outcome.diagnostics if one.code == "PT0653"]
    assert [message.split("`")[1] for message in found] == ([named] if named else [])

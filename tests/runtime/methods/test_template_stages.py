"""Stages with built-in chat templates: training, rollouts and export end at the template's end of turn."""

import json

import pytest
from pyarrow.parquet import read_table
from tests.runtime.methods.stage_harness import StageHarness, warnings

from posttrain.runtime.models.model_loader import load_tokenizer
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES

pytestmark = pytest.mark.slow

_RECIPE = """\
recipe: 1
name: templates
seed: 3
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 128, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "0123456789+=?"}
TEMPLATE
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 64, seed: 1}}}
  talks:
    from: sums
    steps:
      - derive: {completion: answer}
      - chat: {turns: [{user: prompt}, {assistant: completion}]}
      - select: [messages, answer]
  questions:
    from: talks
    steps:
      - last_turn: {}
  pairs:
    from: questions
    steps:
      - derive: {chosen: completion}
      - derive: {rejected: "[{'role': 'assistant', 'content': '?'}]"}
      - select: [prompt, chosen, rejected]
rewards:
  right:
    reads: {completion: text, answer: text}
    returns: {score: {when: {equal: {of: completion, to: answer}}, then: 1.0, else: 0.0}}
stages:
  sft: {train: sft, model: base, data: talks, params: {max_steps: 60, batch_size: 32, learning_rate: 2.0e-2}}
  dpo: {train: dpo, model: sft, data: pairs, params: {max_steps: 2, batch_size: 4}}
  grpo: {train: grpo, model: sft, data: questions, reward: right, params: {max_steps: 2, num_prompts: 2,
      num_generations: 4, max_completion_length: 12, on_constant_reward: warn}}
  check: {eval: sft, data: questions, reward: right, metrics: {right: {mean: returns}},
      sampling: {max_tokens: 12}}
  export: {export: grpo}
"""


def recipe(template: str | None) -> str:
    declared = f"    chat_template: {template}\n" if template else ""
    return _RECIPE.replace("TEMPLATE\n", declared)


@pytest.mark.parametrize("template", [None, "gemma", "mistral", "qwen"])
def test_models_stop_at_the_end_of_their_turn(template: str | None, bench: StageHarness) -> None:
    products = bench.run(recipe(template))
    chosen = BUILTIN_TEMPLATES[template or "chatml"]
    for stage in ("models.base", "sft", "dpo", "grpo", "export"):
        files = products[stage].files
        tokenizer = load_tokenizer(files)
        assert tokenizer.chat_template == chosen.text
        assert tokenizer.eos_token == (chosen.end_of_turn or "<|end|>")
        ends = json.loads((files / "generation_config.json").read_text())["eos_token_id"]
        assert tokenizer.eos_token_id in (ends if isinstance(ends, list) else [ends])
    for stage in ("sft", "dpo"):
        assert not warnings(products[stage]), stage
    rows = read_table(products["check"].files / "completions.parquet").to_pylist()
    stopped = [row["finish"] == "stop" for row in rows]
    assert sum(stopped) > 0.9 * len(stopped)
    # A completion is the answer, without the text and the tokens that the template puts around it.
    opening = {"qwen": "<think>\n\n</think>\n\n", "mistral": " "}.get(template or "", "")
    numbers = [row["completion"].removeprefix(opening).isdigit() for row in rows]
    assert sum(numbers) > 0.9 * len(numbers)

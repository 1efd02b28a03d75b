"""`chat_template_kwargs` of a model apply in every stage: the products are those of a template with the text.

Each stage runs with three models: one whose template has the text itself, one whose template reads it as an
argument of the model, and one without the argument.
"""

import json
from typing import Any

import pytest
from tests.runtime.benchmarks.lm_eval_task_files import TASK_FILES
from tests.runtime.environments.episode_recipe import episode_recipe
from tests.runtime.methods.stage_harness import TEMPLATE, StageHarness, recipe

from posttrain.runtime.models.model_loader import load_tokenizer
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow

MARK = "+="
READS, HAS = (
    "{{ mark }}" + TEMPLATE.replace("{%- for", "{% for", 1),
    MARK + TEMPLATE.replace("{%- for", "{% for", 1),
)
_CHAT = "chat_template: chat.jinja"
_SHORT = "max_steps: 2, learning_rate: 1.0e-2, batch_size: 4"
_ROLLOUT = (
    "max_steps: 2, num_prompts: 2, num_generations: 2, max_completion_length: 4, on_constant_reward: warn"
)
_EVAL = "data: sums.test, reward: solution, metrics: {score: {mean: returns}}, sampling: {max_tokens: 4}"
STAGES = {
    "tuned": "{train: sft, model: sft, adapter: {r: 2}, data: sums.train,"
    f" evaluate: {{data: sums.test, eval_steps: 2, evals: [inloop]}}, params: {{{_SHORT}}}}}",
    **{
        method: f"{{train: {method}, model: sft, data: sums.train, params: {{{_SHORT}}}}}"
        for method in ("dpo", "kto", "orpo", "cpo", "reward_model")
    },
    **{
        method: f"{{train: {method}, model: sft, data: sums.train, reward: solution, params: {{{_ROLLOUT}}}}}"
        for method in ("grpo", "rloo")
    },
    "ppo": "{train: ppo, model: sft, data: sums.train, reward: solution,"
    " params: {max_steps: 1, batch_size: 2, max_completion_length: 4, on_constant_reward: warn}}",
    "judged": "{eval: sft, data: sums.test, reward: judge, metrics: {score: {mean: returns}},"
    " sampling: {max_tokens: 4}}",
    "inloop": f"{{eval: tuned, {_EVAL}}}",
    "both": f"{{eval: [base, sft], {_EVAL}}}",
    "written": "{generate: sft, data: sums.test, sampling: {max_tokens: 4, n: 2, temperature: 1.0}}",
    "talk": "{generate: sft, data: sums.test, sampling: {max_tokens: 4, temperature: 1.0},"
    " dialogue: {with: base, max_turns: 2, opening: '{prompt}', begin: '0'}}",
    "quoted": "{benchmark: sft, tasks: [sums.yaml], prompts: chat}",
    "shipped": "{export: tuned}",
}
_JUDGE = """\
  judge:
    reads: {prompt: any, completion: text}
    nodes: {raw: {reward_model: {of: completion, prompt: prompt, model: reward_model}}}
    returns: raw
stages:
"""


def text_of(model: str) -> str:
    text = recipe(*(f"{name}: {stage}" for name, stage in STAGES.items())).replace("stages:\n", _JUDGE, 1)
    assert _CHAT in text
    return text.replace(_CHAT, f"{_CHAT}{model}")


def results(made: dict[str, Product]) -> dict[str, Any]:
    """What each stage makes: weights, and rows of completions or metrics."""
    found: dict[str, Any] = {}
    for name, product in made.items():
        for file in sorted(product.files.rglob("*")):
            if file.suffix == ".safetensors":
                found[f"{name}/{file.name}"] = file.read_bytes()
            elif file.suffix == ".parquet":
                found[f"{name}/{file.name}"] = read_rows(file.parent, file.stem)
            elif file.name == "metrics.json":
                found[f"{name}/{file.name}"] = json.loads(file.read_text())
    return found


def test_every_stage_applies_the_arguments_of_the_model(bench: StageHarness) -> None:
    kwargs = f'\n    chat_template_kwargs: {{mark: "{MARK}"}}'
    given = bench.run(text_of(kwargs), {**TASK_FILES, "chat.jinja": READS})
    oracle = results(bench.run(text_of(""), {**TASK_FILES, "chat.jinja": HAS}))
    without = results(bench.run(text_of(""), {**TASK_FILES, "chat.jinja": READS}))
    found = results(given)
    assert found.keys() == oracle.keys() == without.keys()
    assert {name for name in found if found[name] != oracle[name]} == set()
    changed = {name.partition("/")[0] for name in found if found[name] != without[name]}
    assert changed >= STAGES.keys()
    exported = load_tokenizer(given["shipped"].files)
    assert exported.apply_chat_template([{"role": "user", "content": "1"}], tokenize=False) == f"{MARK}1"


@pytest.mark.parametrize("method", ["grpo", "rloo", "ppo"])
def test_episodes_have_the_arguments_of_the_model(method: str, bench: StageHarness) -> None:
    params = (
        "max_steps: 2, num_prompts: 8, num_generations: 8, learning_rate: 1.0e-2, max_completion_length: 8"
    )
    if method == "ppo":
        params = "max_steps: 2, batch_size: 16, max_completion_length: 8, on_constant_reward: warn"
    text = episode_recipe(params=params, chat=True, method=method)
    declared = text.replace(_CHAT, f"{_CHAT}\n    chat_template_kwargs: {{mark: '<'}}")
    reads, has = READS, HAS.replace(MARK, "<", 1)
    found = results(bench.run(declared, {"chat.jinja": reads}))
    assert found == results(bench.run(text, {"chat.jinja": has}))
    without = results(bench.run(text, {"chat.jinja": reads}))
    assert {name for name in found if found[name] == without[name]} == {
        "models.base/model.safetensors",
        "datasets.numbers/all.parquet",
    }


COMPARED = """\
recipe: 1
name: compared
seed: 3
models:
  thinking:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 256, initializer_range: 0.5}
    tokenizer: {init: characters}
    chat_template: qwen
    chat_template_kwargs: {enable_thinking: false}
  plain:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 256, initializer_range: 0.5}
    tokenizer: {init: characters}
    chat_template: zephyr
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 3, seed: 1}}}
  own:
    from: {arithmetic: {digits: 1, count: 3, seed: 1}}
    steps: [derive: {chat_template_kwargs: "'{\\"enable_thinking\\": true}'"}]
rewards:
  short: {reads: {completion: text}, returns: {score: {when: {present: completion}, then: 1.0}}}
stages:
  both: {eval: [thinking, plain], data: sums, EVAL}
  stage: {eval: thinking, data: sums, chat_template_kwargs: {enable_thinking: true}, EVAL}
  row: {eval: thinking, data: own, chat_template_kwargs: {enable_thinking: false}, EVAL}
"""


def test_a_thinking_and_a_plain_model_are_evaluated_together(bench: StageHarness) -> None:
    """A row overrides the stage, and a stage overrides the model: other prompts give other completions."""
    tail = "reward: short, metrics: {score: {mean: returns}}, sampling: {max_tokens: 8}"
    made = bench.run(COMPARED.replace("EVAL", tail))
    texts = {
        name: [row["completion"] for row in read_rows(made[name].files, "completions")]
        for name in ("both", "stage", "row")
    }
    assert len(texts["both"]) == 6
    assert texts["stage"] == texts["row"]
    assert texts["both"][:3] != texts["stage"]

"""Stages that train on tool calls: the losses of TRL by hand, to the last bit; exact resume after a kill."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics
from tests.runtime.training.test_tool_training import TOOL, talk, template

from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow

RECIPE = """\
recipe: 1
name: tools
seed: 3
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 1024, initializer_range: 0.06}
    tokenizer: {init: characters}
    chat_template: qwen.jinja
datasets:
  talks: {from: {files: talks.jsonl}, steps: [split: {test: 4}]}
stages:
  it: {train: METHOD, model: base, data: talks.train, KEYS
    params: {max_steps: 4, learning_rate: 1.0e-3, batch_size: 4, max_length: 1024, PARAMS}}
"""


def rows_of(method: str, *, text: bool) -> list[dict[str, Any]]:
    """Rows with tools; `text`: as a file has them, and otherwise as TRL gets them."""
    rows: list[dict[str, Any]] = []
    for number in range(16):
        turns = talk(number, text=text)
        other = [{"role": "assistant", "content": f"no {number}"}]
        row: dict[str, Any] = {"messages": turns}
        if method != "sft":
            row = {"prompt": turns[:2], "chosen": [turns[2]], "rejected": other}
        if method == "kto":
            row = {"prompt": turns[:2], "completion": [turns[2]], "label": number % 3 == 0}
        tools = [TOOL] if number % 2 else None
        rows.append({**row, "tools": json.dumps(tools) if tools else None, "n": number})
    return rows


def files(method: str) -> dict[str, str]:
    lines = "".join(json.dumps(row) + "\n" for row in rows_of(method, text=True))
    return {"talks.jsonl": lines, "qwen.jinja": template("qwen3_training")}


def recipe(method: str, keys: str = "", params: str = "save_steps: 2") -> str:
    return RECIPE.replace("METHOD", method).replace("KEYS", keys).replace("PARAMS", params)


def digests(product: Product) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in product.files.glob("*.safetensors")}


def losses_by_hand(method: str, made: Product, numbers: list[int], folder: Path) -> list[float]:
    """The loss of each held-out row by a trainer of TRL alone."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    model = AutoModelForCausalLM.from_pretrained(made.files)
    for weight in model.parameters():  # in memory of its own: the kernels for aligned data round differently
        weight.data = weight.data.clone()
    rows = [rows_of(method, text=False)[number] for number in numbers]
    data = Dataset.from_list([{**row, "n": str(row["n"])} for row in rows], on_mixed_types="use_json")
    common: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_eval_batch_size": 1,
        "per_device_train_batch_size": 1,
        "use_cpu": True,
        "bf16": False,
        "max_length": 1024,
        "report_to": "none",
    }
    tokenizer = AutoTokenizer.from_pretrained(made.files)
    given: dict[str, Any] = {"model": model, "train_dataset": data, "eval_dataset": data}
    if method == "sft":
        args: Any = SFTConfig(**common, assistant_only_loss=True)
        trainer: Any = SFTTrainer(args=args, processing_class=tokenizer, **given)
    else:
        args = DPOConfig(**common, beta=0.1)
        reference = AutoModelForCausalLM.from_pretrained(made.files)
        trainer = DPOTrainer(args=args, processing_class=tokenizer, ref_model=reference, **given)
    model.eval()
    return [float(trainer.prediction_step(model, batch, True)[0]) for batch in trainer.get_eval_dataloader()]


def test_losses_with_tools_are_those_of_trl(bench: StageHarness, tmp_path: Path) -> None:
    evaluate = "evaluate: {data: talks.test, eval_steps: 4},"
    made = bench.run(recipe("sft", evaluate, "micro_batch_size: 1"), files("sft"))
    numbers = [row["n"] for row in read_rows(made["datasets.talks"].files, "test")]
    stored = read_rows(made["it"].files / "evaluation", "rows")
    assert [row["eval_loss"] for row in stored] == losses_by_hand("sft", made["it"], numbers, tmp_path)


@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "orpo", "reward_model"])
def test_a_killed_stage_with_tools_resumes_exactly(method: str, bench: StageHarness) -> None:
    text, given = recipe(method), files(method)
    whole = bench.run(text, given)["it"]
    plan = compile_plan(text, given)
    step = plan.step("it")
    again = StageHarness(bench.root / f"again-{method}", bench.runner)
    for name, content in given.items():
        (again.root / name).write_text(content)
    again.prepare_step(plan, step)
    assert again.wait(step, kill_at=2) != 0
    assert again.wait(step) == 0, again.failure(step)
    resumed = again.commit(step)
    assert digests(resumed) == digests(whole)
    assert len(metrics(whole, "loss")) == 4


@pytest.mark.parametrize("method", ["dpo", "kto", "orpo", "reward_model"])
def test_methods_on_pairs_read_the_tools(method: str, bench: StageHarness) -> None:
    """Other tools change the losses."""
    given = files(method)
    other = {**given, "talks.jsonl": given["talks.jsonl"].replace("add numbers", "count the sheep")}
    first, second = (metrics(bench.run(recipe(method), one)["it"], "loss") for one in (given, other))
    assert first != second


ROLLOUTS = """\
rewards:
  short: {reads: {completion: text}, returns: {score: {when: {present: completion}, then: 1.0}}}
stages:
  grpo: {train: grpo, model: base, data: talks.train, reward: short,
    chat_template_kwargs: {enable_thinking: false},
    params: {max_steps: 1, num_prompts: 2, num_generations: 2, max_completion_length: 4,
      on_constant_reward: warn}}
  ppo: {train: ppo, model: base, data: talks.train, reward: short,
    params: {max_steps: 1, batch_size: 2, max_completion_length: 4, on_constant_reward: warn}}
  check: {eval: base, data: talks.test, reward: short, metrics: {score: {mean: returns}},
    sampling: {max_tokens: 4}}
"""


def test_rollouts_and_evals_read_the_tools(bench: StageHarness) -> None:
    given = files("dpo")
    text = recipe("sft").partition("stages:")[0] + ROLLOUTS
    made = bench.run(text, given)
    assert len(metrics(made["grpo"], "reward")) == len(metrics(made["ppo"], "reward")) == 1
    stored = read_rows(made["check"].files, "completions")
    prompts = {row["n"]: row["prompt"] for row in stored}
    assert prompts == {number: talk(number, text=False)[:2] for number in prompts}

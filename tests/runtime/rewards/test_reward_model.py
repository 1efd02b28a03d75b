"""A reward model as a node: trained by one stage, used in an eval, in GRPO and in its in-loop eval."""

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe
from tests.runtime.rewards.reward_compilation import compiled_graph as graph_of

from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.graph import Graph
from posttrain.runtime.rewards.engine.reward_model_inference import RewardModelScorer, load_scorer
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow
_LIKED = """\
  liked:
    reads: {completion: text, prompt: text}
    nodes:
      raw: {reward_model: {of: completion, prompt: prompt, model: scorer, batch_size: 4}}
    returns: {clip: {of: raw, low: -4, high: 4}}
"""
_SCORER = (
    "scorer: {train: reward_model, model: base, data: sums.train,"
    " params: {max_steps: 30, learning_rate: 1.0e-2, batch_size: 16}}"
)
_LIGHT = _SCORER.replace("scorer:", "light:").replace("params:", "adapter: {r: 4}, params:")
_LOOK = "look: {eval: sft, data: sums.test, reward: liked, metrics: {raw: raw}, sampling: {max_tokens: 6}}"
_GRPO = (
    "rl: {train: grpo, model: sft, data: sums.train, reward: liked, evaluate: {evals: [look], eval_steps: 2},"
    " params: {max_steps: 2, num_prompts: 4, num_generations: 4, learning_rate: 1.0e-3,"
    " max_completion_length: 6}}"
)


def text() -> str:
    return recipe(_SCORER, _LIGHT, _LOOK, _GRPO).replace("stages:\n", f"{_LIKED}stages:\n")


@pytest.fixture(scope="module")
def made(bench: StageHarness) -> dict[str, Product]:
    return bench.run(text())


def scored(folder: Path, columns: dict[str, list[Any]], **params: Any) -> Any:
    node = {"reward_model": {"of": "completion", "prompt": "prompt", "model": "scorer", **params}}
    reads = {"completion": "text", "prompt": "any"}
    plan = graph_of({"reads": reads, "nodes": {"node": node}, "returns": "node"}).step_params()
    return Graph.from_plan(plan, models={"scorer": folder}).evaluate(columns)


def by_hand(model: RewardModelScorer, prompt: str, completion: str) -> float:
    """The score of a single text, computed directly with transformers."""
    import torch

    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]
    ids = model.tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)["input_ids"]
    with torch.inference_mode():
        return model.model(input_ids=ids).logits[0, 0].item()


def test_a_stage_takes_the_scorer_that_its_reward_names_as_an_input():
    steps = {step.id: step for step in compile_plan(text()).steps}
    assert steps["look"].inputs["reward:scorer"].step == "scorer"
    assert steps["rl"].inputs["reward:scorer"].step == "scorer"
    assert steps["rl"].inputs["look.reward:scorer"].step == "scorer"
    again = compile_plan(text().replace("max_steps: 30", "max_steps: 31"))
    assert again.step("look").key != steps["look"].key
    assert again.step("sft").key == steps["sft"].key


def test_an_eval_holds_the_scores_that_the_model_gives_by_hand(made: dict[str, Product]):
    rows = read_rows(made["look"].files, "completions")
    model = load_scorer(made["scorer"].files)
    assert len(rows) == 17
    for row in rows:
        alone = by_hand(model, row["prompt"], row["completion"])
        assert row["node:raw"] == pytest.approx(alone, abs=1e-4)
        assert row["node:returns"] == pytest.approx(max(-4.0, min(4.0, alone)), abs=1e-4)
    assert len({row["node:raw"] for row in rows}) > 1


@pytest.mark.parametrize("scorer", ["scorer", "light"])
def test_it_has_learnt_what_its_pairs_prefer(scorer: str, made: dict[str, Product]):
    right = read_rows(made["datasets.sums"].files, "test")
    completions = [row["chosen"] for row in right] + [row["rejected"] for row in right]
    columns = {"completion": completions, "prompt": [row["prompt"] for row in right] * 2}
    found = scored(made[scorer].files, columns).values["node"]
    assert all(chosen > rejected for chosen, rejected in zip(found[:17], found[17:], strict=True))


def test_a_model_is_trained_and_measured_by_it(made: dict[str, Product]):
    assert len(metrics(made["rl"], "reward/raw")) == 2
    assert all(share == 0 for share in metrics(made["rl"], "unscored"))
    assert metrics(made["rl"], "eval/look.raw")
    model = load_scorer(made["scorer"].files)
    first, *_ = sorted((made["rl"].record / "trace").iterdir())
    for row in parquet.read_table(first).to_pylist():
        assert row["node:raw"] == pytest.approx(by_hand(model, row["prompt"], row["completion"]), abs=1e-4)


def test_a_prompt_may_be_text_or_turns_and_the_model_reads_both_alike(made: dict[str, Product]):
    folder, texts = made["scorer"].files, ["<answer>7</answer>", "1", "<answer>?</answer>", "12+3=15"]
    turns = [[{"role": "user", "content": "3+4"}]] * 4
    found = scored(folder, {"completion": texts, "prompt": turns}).values["node"]
    assert found == scored(folder, {"completion": texts, "prompt": ["3+4"] * 4}).values["node"]
    backwards = scored(folder, {"completion": texts[::-1], "prompt": turns}, batch_size=1).values["node"]
    assert found == pytest.approx(backwards[::-1], abs=1e-4)


def test_what_it_cannot_read_it_abstains_on(made: dict[str, Product]):
    texts = [None, "1" * 80, "1"]
    found = scored(made["scorer"].files, {"completion": texts, "prompt": ["1+1"] * 3})
    assert found.values["node"][:2] == [None, None]
    assert found.values["node"][2] is not None
    assert found.reasons["node"] == [
        "there is no text",
        "84 tokens, more than the reward model's context of 64",
        None,
    ]


def test_plain_text_ends_as_it_did_in_training(made: dict[str, Product]):
    model = load_scorer(made["scorer"].files)
    assert model.tokenizer.decode(model.tokenize("3+4=", "7", "plain")) == f"3+4=7{model.tokenizer.eos_token}"
    assert model.tokenizer.decode(model.tokenize(None, "7", "chat")) == f"7{model.tokenizer.eos_token}"


def test_loading_it_draws_no_random_number(made: dict[str, Product], monkeypatch: pytest.MonkeyPatch):
    import numpy
    import torch

    from posttrain.runtime.rewards.engine import reward_model_inference

    monkeypatch.setattr(reward_model_inference, "_LOADED", {})
    random.seed(1)
    before = (random.getstate(), torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist())
    load_scorer(made["scorer"].files)
    assert (random.getstate(), torch.get_rng_state().tolist()) == before[:2]
    assert numpy.random.get_state()[1].tolist() == before[2]


def test_a_model_that_writes_is_refused(made: dict[str, Product]):
    with pytest.raises(StepError, match="not a reward model: it generates text"):
        scored(made["sft"].files, {"completion": ["1"], "prompt": ["1"]})


def test_without_a_run_there_is_no_model():
    plan = graph_of(
        {"reads": {"completion": "text"}, "returns": {"reward_model": {"of": "completion", "model": "m"}}}
    )
    with pytest.raises(StepError, match="the reward model `m` is not available"):
        Graph.from_plan(plan.step_params()).evaluate({"completion": ["1"]})


def test_a_killed_stage_goes_on_with_the_same_scores(bench: StageHarness):
    """Loading the reward model in a resumed run must not use the random number generators."""
    params = (
        "{max_steps: 6, num_prompts: 4, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 6,"
        " save_steps: 1}"
    )
    rl = f"it: {{train: grpo, model: sft, data: sums.train, reward: liked, params: {params}}}"
    plan = compile_plan(recipe(_SCORER, rl).replace("stages:\n", f"{_LIKED}stages:\n"))
    step = plan.step("it")
    undisturbed = bench.run_step(plan, step).content_digest
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=3)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"]
    assert bench.commit(step).content_digest == undisturbed

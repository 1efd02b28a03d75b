"""PPO trains on a reward, before and after other methods, and reports its metrics."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe, warnings

from posttrain.runtime.events import read_events
from posttrain.runtime.models.model_loader import load_model
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import run_key

pytestmark = pytest.mark.slow

_PARAMS = (
    "max_steps: 48, batch_size: 64, num_ppo_epochs: 4, learning_rate: 3.0e-3, critic_learning_rate: 5.0e-3,"
    " max_completion_length: 6"
)
_SHORT = "max_steps: 2, batch_size: 16, num_ppo_epochs: 2, learning_rate: 1.0e-3, max_completion_length: 6"
_LORA = (
    "lora: {train: sft, model: sft, data: sums.train, adapter: {r: 4},"
    " params: {max_steps: 4, learning_rate: 1.0e-2, batch_size: 16}}"
)


def ppo(params: str = _PARAMS, model: str = "sft", keys: str = "", name: str = "it") -> str:
    return (
        f"{name}: {{train: ppo, model: {model}, data: sums.train, reward: solution, {keys}"
        f" params: {{{params}}}}}"
    )


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def weights(product: Product) -> dict[str, Any]:
    return {name: weight.detach() for name, weight in load_model(product.files).named_parameters()}


def test_it_learns_from_a_reward_after_sft(bench: StageHarness) -> None:
    product = bench.run(recipe(ppo()))["it"]
    rewards = metrics(product, "reward")
    assert len(rewards) == 12  # one generation serves four steps
    assert mean(rewards[-3:]) > mean(rewards[:3]) + 0.3
    assert warnings(product) == []
    assert product.facts["steps"] == 48
    assert len(metrics(product, "loss")) == 48
    policy = sum(weight.numel() for weight in weights(product).values())
    assert product.facts["parameters"] == product.facts["trained_parameters"] == policy
    assert {path.name for path in product.files.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_its_figures_tell_what_goes_on(bench: StageHarness) -> None:
    product = bench.run(recipe(ppo()))["it"]
    assert metrics(product, "kl")[0] == pytest.approx(0.0, abs=1e-6)  # the policy still equals the reference
    assert metrics(product, "kl_per_completion")[-1] > 0.1
    assert (
        metrics(product, "clip_ratio")[0] == 0.0
    )  # the policy has not changed in the first step of a rollout
    assert max(metrics(product, "clip_ratio")) > 0.0
    assert metrics(product, "policy/approx_kl")[0] == pytest.approx(0.0, abs=1e-6)
    assert metrics(product, "values/mean")[0] == 0.0  # the initial values are not random
    losses = metrics(product, "loss/value")
    assert mean(losses[-8:]) < mean(losses[:8])
    assert all(0 <= share <= 1 for share in metrics(product, "completions/clipped_ratio"))
    assert all(1 <= length <= 6 for length in metrics(product, "completions/mean_length"))
    for name in (
        "entropy",
        "values/explained_variance",
        "reward/right",
        "reward/format",
        "kl_coef",
        "reward_std",
    ):
        assert len(metrics(product, name)) == 12
    for name in ("gradient_norm", "values/gradient_norm", "loss/policy", "policy/entropy"):
        assert len(metrics(product, name)) == 48
    samples = [e for e in read_events(product.record / "events.jsonl") if e["kind"] == "sample"]
    assert samples


def test_a_larger_kl_coef_keeps_it_near_the_reference(bench: StageHarness) -> None:
    near = bench.run(recipe(ppo(_PARAMS + ", kl_coef: 1.0")))["it"]
    far = bench.run(recipe(ppo(_PARAMS + ", kl_coef: 0.0")))["it"]
    free = bench.run(recipe(ppo()))["it"]
    assert mean(metrics(near, "kl_per_completion")[-3:]) < mean(metrics(free, "kl_per_completion")[-3:])
    assert metrics(far, "kl") == []  # with kl_coef 0 there is no reference model
    assert mean(metrics(far, "reward")[-3:]) > mean(metrics(far, "reward")[:3]) + 0.3


def test_kl_coef_follows_its_target(bench: StageHarness) -> None:
    product = bench.run(recipe(ppo(_PARAMS + ", kl_target: 1.0e-3, kl_horizon: 64")))["it"]
    coefficients = metrics(product, "kl_coef")
    assert coefficients[0] == 0.05
    assert coefficients[-1] > 0.1


@pytest.mark.parametrize(
    "more", ["micro_batch_size: 4", "micro_batch_size: 16, gradient_checkpointing: true"]
)
def test_what_is_in_memory_at_once_changes_nothing_but_rounding(more: str, bench: StageHarness) -> None:
    text = recipe(ppo(_SHORT + ", entropy_coef: 0.01"))
    whole = weights(bench.run(text)["it"])
    plan = compile_plan(recipe(ppo(f"{_SHORT}, entropy_coef: 0.01, {more}")))
    step = plan.step("it")
    bench.reset_step(step)  # neutral parameters are not in the key
    parts = weights(bench.run_step(plan, step))
    bench.reset_step(step)
    start = weights(bench.run(text)["sft"])
    for name, weight in whole.items():
        moved = float((weight - start[name]).abs().max())
        assert float((weight - parts[name]).abs().max()) < 0.02 * moved + 1e-7, name


def test_values_from_the_policy_s_own_layers(bench: StageHarness) -> None:
    product = bench.run(recipe(ppo(_PARAMS + ", value_model: shared")))["it"]
    rewards = metrics(product, "reward")
    assert mean(rewards[-3:]) > mean(rewards[:3]) + 0.3


@pytest.mark.parametrize(
    "more",
    [
        "kl_estimator: k2",
        "kl_estimator: k3",
        "whiten_advantages: false",
        "cliprange_high: 0.4",
        "num_mini_batches: 2",
    ],
)
def test_every_way_runs(more: str, bench: StageHarness) -> None:
    product = bench.run(recipe(ppo(f"{_SHORT}, {more}").replace("max_steps: 2", "max_steps: 4")))["it"]
    assert len(metrics(product, "loss")) == 4


def test_an_adapter_that_goes_on_learns_and_its_base_does_not(bench: StageHarness) -> None:
    made = bench.run(recipe(_LORA, ppo(_PARAMS.replace("3.0e-3", "2.0e-2"), model="lora")))
    rewards = metrics(made["it"], "reward")
    assert mean(rewards[-3:]) > mean(rewards[:3]) + 0.2
    before, after = weights(made["lora"]), weights(made["it"])
    assert before.keys() == after.keys()
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed
    assert all(".lora_" in name for name in changed)
    assert made["it"].facts["trained_parameters"] == made["lora"].facts["trained_parameters"]
    assert metrics(made["it"], "kl")[0] == pytest.approx(0.0, abs=1e-6)


def test_a_new_adapter_on_what_sft_made(bench: StageHarness) -> None:
    made = bench.run(recipe(ppo(_PARAMS.replace("3.0e-3", "2.0e-2"), keys="adapter: {r: 4},")))
    rewards = metrics(made["it"], "reward")
    assert mean(rewards[-3:]) > mean(rewards[:3]) + 0.2
    names = {path.name for path in made["it"].files.iterdir()}
    assert "adapter_model.safetensors" in names
    assert "model.safetensors" not in names


def test_other_methods_go_on_from_it(bench: StageHarness) -> None:
    pairs = "max_steps: 6, learning_rate: 2.0e-3, batch_size: 8, max_length: 64"
    made = bench.run(
        recipe(
            ppo(),
            f"dpo: {{train: dpo, model: it, data: sums.train, params: {{{pairs}}}}}",
            ppo(_SHORT + ", on_constant_reward: warn", model="it", name="again"),
            ppo(_SHORT + ", on_constant_reward: warn", model="dpo", name="after", keys="reference: sft,"),
        )
    )
    margins = metrics(made["dpo"], "preference/margin")
    assert margins[-1] > margins[0]
    assert metrics(made["again"], "reward")[0] > metrics(made["it"], "reward")[0]
    assert abs(metrics(made["after"], "kl")[0]) > 1e-3  # with the reference model that the stage names


def test_completions_without_a_score_are_told_and_the_others_learnt_from(bench: StageHarness) -> None:
    params = _PARAMS.replace("max_steps: 48", "max_steps: 24") + ", kl_coef: 0.0"
    text = recipe(ppo(params)).replace("returns: {sum: [format, right]}", "returns: {number: tagged}")
    product = bench.run(text)["it"]
    assert 0.2 < metrics(product, "unscored")[0] < 1.0
    rewards = metrics(product, "reward")
    assert (
        mean(rewards[-2:]) > mean(rewards[:2]) + 1.0
    )  # larger completions numbers alone must not change the rate


def test_cut_completions_can_be_left_out_and_charged_for(bench: StageHarness) -> None:
    params = _SHORT.replace("max_completion_length: 6", "max_completion_length: 1")
    masked = bench.run(
        recipe(ppo(params + ", mask_truncated_completions: true, kl_coef: 0.0, on_constant_reward: warn"))
    )["it"]
    cut = metrics(masked, "completions/clipped_ratio")[0]
    assert cut > 0.5
    charged = bench.run(
        recipe(ppo(params + ", missing_eos_penalty: 5.0, kl_coef: 0.0, on_constant_reward: warn"))
    )["it"]
    losses = metrics(charged, "loss/value")[0], metrics(masked, "loss/value")[0]
    assert losses[0] > losses[1]


def test_asked_to_stop_it_keeps_what_it_has(bench: StageHarness) -> None:
    """A stopped run saves a checkpoint, and resumes to a byte-identical product."""
    plan = compile_plan(recipe(ppo(_PARAMS + ", cliprange: 0.21")))
    step = plan.step("it")
    undisturbed = bench.run_step(plan, step).content_digest
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    work = bench.work(step)
    lock = try_lock(bench.home.step_lock(run_key(step, "test")))
    assert lock is not None
    handle = bench.runner.start(work, step, {}, lock.descriptor)
    while not any(event["kind"] == "metrics" for event in bench.events(step)):
        time.sleep(0.002)
    bench.runner.stop(handle)
    while (status := bench.runner.poll(handle)) is None:
        time.sleep(0.002)
    lock.release()
    assert status not in (0, -signal.SIGKILL)
    kept = [event["step"] for event in bench.events(step) if event["kind"] == "checkpoint"]
    assert kept[-1] % 4 == 0
    assert kept[-1] < 48
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert bench.commit(step).content_digest == undisturbed


def test_a_checkpoint_holds_the_values_and_the_product_does_not(bench: StageHarness, tmp_path: Path) -> None:
    plan = compile_plan(recipe(ppo(_SHORT + ", kl_target: 0.1")))
    step = plan.step("it")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    kept = sorted((bench.work(step) / "checkpoints").iterdir())[-1]
    names = {path.name for path in kept.iterdir()}
    assert {"model.safetensors", "value.safetensors", "ppo.json", "optimizer.pt"} <= names
    assert json.loads((kept / "ppo.json").read_text())["kl_coef"] != 0.05
    assert not any("value" in path.name for path in bench.commit(step).files.iterdir())


def test_it_is_measured_on_its_way_and_its_best_weights_are_the_product(bench: StageHarness) -> None:
    """With `greater_is_better: false`, the best weights are early ones; the product must contain them."""
    check = (
        "check: {eval: it, data: sums.test, reward: solution, metrics: {score: {mean: returns}},"
        " sampling: {max_tokens: 6, temperature: 0.7}}"
    )
    keys = (
        "evaluate: {eval_steps: 8, evals: [check], metric_for_best_model: check.score, keep: best,"
        " greater_is_better: false},"
    )
    made = bench.run(recipe(ppo(_PARAMS.replace("max_steps: 48", "max_steps: 24"), keys=keys), check))
    found = metrics(made["it"], "eval/check.score")
    assert len(found) == 3
    best = found.index(min(found))
    assert made["it"].facts["best"]["step"] == 8 * (best + 1)
    assert made["check"].facts["metrics"]["score"]["value"] == found[best]

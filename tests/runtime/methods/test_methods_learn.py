"""Every method improves its objective from the first steps to the last."""

import itertools
import json

import pytest
from tests.runtime.methods.stage_harness import StageHarness, metrics, recipe, warnings

pytestmark = pytest.mark.slow

_ROWS = "max_steps: 12, learning_rate: 2.0e-3, batch_size: 8, max_length: 64"
_PROMPTS = (
    "max_steps: 30, num_prompts: 8, num_generations: 8, learning_rate: 3.0e-3, max_completion_length: 6"
)


def stage(method: str, params: str, keys: str = "") -> str:
    return f"it: {{train: {method}, model: sft, data: sums.train, {keys} params: {{{params}}}}}"


@pytest.mark.parametrize(
    ("method", "metric", "least"),
    [
        ("dpo", "preference/margin", 0.3),
        ("ipo", "preference/margin", 0.3),
        ("kto", "preference/margin", 0.3),
        ("reward_model", "preference/margin", 0.5),
        ("simpo", "preference/margin", 0.5),
        ("cpo", "preference/margin", 0.1),
    ],
)
def test_a_method_learns_from_pairs(method: str, metric: str, least: float, bench: StageHarness) -> None:
    product = bench.run(recipe(stage(method, _ROWS)))["it"]
    found = metrics(product, metric)
    assert found[-1] - found[0] > least
    assert warnings(product) == []


def test_orpo_imitates_and_prefers_at_once(bench: StageHarness) -> None:
    product = bench.run(recipe(stage("orpo", _ROWS)))["it"]
    losses = metrics(product, "loss")
    assert min(losses[-4:]) < losses[0] - 0.1
    assert metrics(product, "log_odds_chosen")[-1] > metrics(product, "log_odds_chosen")[0]


@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_a_method_learns_from_a_reward(method: str, bench: StageHarness) -> None:
    product = bench.run(recipe(stage(method, _PROMPTS, "reward: solution,")))["it"]
    rewards = metrics(product, "reward")
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.3


@pytest.mark.parametrize(
    "loss",
    [
        "hinge",
        "exo_pair, label_smoothing: 1.0e-3",
        "nca_pair",
        "robust, label_smoothing: 0.1",
        "bco_pair",
        "sppo_hard",
        "aot",
        "aot_unpaired",
        "apo_zero",
        "apo_down",
        "discopop",
        "sft",
        "sigmoid_norm",
        "[sigmoid, sft], loss_weights: [1.0, 0.2]",
    ],
)
def test_every_loss_of_dpo_runs(loss: str, bench: StageHarness) -> None:
    product = bench.run(
        recipe(stage("dpo", f"max_steps: 3, learning_rate: 2.0e-3, batch_size: 8, loss_type: {loss}"))
    )["it"]
    losses = metrics(product, "loss")
    assert len(losses) == 3
    assert losses[-1] != losses[0]


@pytest.mark.parametrize(
    "loss",
    [
        "grpo",
        "dr_grpo",
        "bnpo",
        "cispo",
        "sapo",
        "luspo, importance_sampling_level: sequence",
        "vespo",
        "grpo, importance_sampling_level: sequence",
    ],
)
def test_every_loss_of_grpo_runs(loss: str, bench: StageHarness) -> None:
    params = (
        "max_steps: 2, num_prompts: 4, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 6,"
        f" loss_type: {loss}"
    )
    product = bench.run(recipe(stage("grpo", params, "reward: solution,")))["it"]
    assert len(metrics(product, "loss")) == 2


def test_kto_takes_labelled_rows_too(bench: StageHarness) -> None:
    changed = recipe(stage("kto", _ROWS + ", desirable_weight: 1.5")).replace(
        "- split: {test: 17}",
        "- select: [prompt, completion, answer, label]\n      - split: {test: 17}",
    )
    product = bench.run(changed)["it"]
    assert len(metrics(product, "loss")) == 12


def conversations(*columns: str) -> str:
    """Write pairs of conversations, with a prompt column or with shared first turns."""
    lines: list[str] = []
    for left, right in itertools.product(range(1, 9), repeat=2):
        prompt = [{"role": "user", "content": f"{left}+{right}="}]
        chosen = [{"role": "assistant", "content": f"<answer>{left + right}</answer>"}]
        rejected = [{"role": "assistant", "content": "<answer>?</answer>"}]
        row = {"prompt": prompt, "chosen": chosen, "rejected": rejected, "completion": chosen}
        row |= {"messages": prompt + chosen, "label": (left + right) % 2 == 0}
        if "prompt" not in columns:
            row |= {"chosen": prompt + chosen, "rejected": prompt + rejected}
        lines.append(json.dumps({name: row[name] for name in columns}))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("method", "columns"),
    [
        ("sft", "messages"),
        ("sft", "prompt completion"),
        ("dpo", "prompt chosen rejected"),
        ("dpo", "chosen rejected"),
        ("kto", "prompt chosen rejected"),
        ("kto", "prompt completion label"),
        ("reward_model", "prompt chosen rejected"),
        ("reward_model", "chosen rejected"),
        ("orpo", "prompt chosen rejected"),
        ("simpo", "chosen rejected"),
    ],
)
def test_a_method_takes_conversations(method: str, columns: str, bench: StageHarness) -> None:
    text = recipe(f"it: {{train: {method}, model: base, data: talks, params: {{{_ROWS}}}}}")
    text = text.replace("rewards:", "  talks: {from: {files: talks.jsonl}}\nrewards:")
    losses = metrics(bench.run(text, {"talks.jsonl": conversations(*columns.split())})["it"], "loss")
    assert losses[-1] < losses[0]


def test_packed_rows_do_not_see_each_other(bench: StageHarness) -> None:
    """The first loss over all rows is the same with and without packing."""
    alike = "max_steps: 1, learning_rate: 1.0e-3, batch_size: 64, max_length: 64"
    apart = bench.run(recipe(f"it: {{train: sft, model: sft, data: sums.train, params: {{{alike}}}}}"))["it"]
    packed = bench.run(
        recipe(f"it: {{train: sft, model: sft, data: sums.train, params: {{{alike}, packing: true}}}}")
    )["it"]
    assert metrics(packed, "loss") == pytest.approx(metrics(apart, "loss"), rel=1e-4)


def test_an_epoch_of_packed_rows_has_the_steps_that_they_fill(bench: StageHarness) -> None:
    rows = "epochs: 2, batch_size: 2, max_length: 64, learning_rate: 1.0e-3"
    made = bench.run(
        recipe(
            f"apart: {{train: sft, model: sft, data: sums.train, params: {{{rows}}}}}",
            f"packed: {{train: sft, model: sft, data: sums.train, params: {{{rows}, packing: true}}}}",
        )
    )
    apart, packed = (made[name].facts["steps"] for name in ("apart", "packed"))
    assert 2 <= packed < apart / 2
    rates = metrics(made["packed"], "learning_rate")
    assert len(rates) == packed
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(
        1.0e-3 / packed
    )  # the learning rate falls to 0 after the last of these steps


def test_the_rate_of_an_adapter_is_ten_times_the_method_s(bench: StageHarness) -> None:
    params = "params: {max_steps: 2, batch_size: 8, lr_scheduler_type: constant_with_warmup}"
    made = bench.run(
        recipe(
            f"whole: {{train: dpo, model: sft, data: sums.train, {params}}}",
            f"it: {{train: dpo, model: sft, data: sums.train, adapter: {{r: 4}}, {params}}}",
        )
    )
    assert metrics(made["whole"], "learning_rate")[0] == pytest.approx(1e-6)
    assert metrics(made["it"], "learning_rate")[0] == pytest.approx(1e-5)

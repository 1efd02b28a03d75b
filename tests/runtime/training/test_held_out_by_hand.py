"""The metrics of held-out rows, and gates on them, computed again with torch and NumPy alone."""

import json
import math
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.gate_decision import _check_same_items
from posttrain.runtime.evaluation.metric_items import MetricItems
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow

BETA = 0.1


def stage(name: str, method: str = "sft", params: str = "", more: str = "") -> str:
    given = f"max_steps: 4, learning_rate: 5.0e-3, max_length: 64, {params}"
    rows = "data: sums.train, evaluate: {data: sums.test, eval_steps: 4}"
    return f"{name}: {{train: {method}, model: sft, {rows}, {more} params: {{{given}}}}}"


def model_of(product: Product) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(product.files).eval()


def log_probs(model: Any, tokenizer: Any, prompt: str, answer: str) -> list[tuple[float, bool]]:
    """The log-probability of each token of an answer with its end, and whether it is the most likely one."""
    import torch

    before = tokenizer(prompt)["input_ids"]
    ids = torch.tensor([tokenizer(prompt + answer + tokenizer.eos_token)["input_ids"]])
    assert ids[0, : len(before)].tolist() == before
    with torch.no_grad():
        found = torch.log_softmax(model(input_ids=ids).logits[0].double(), -1)
    return [
        (float(found[place - 1, token]), int(found[place - 1].argmax()) == int(token))
        for place, token in enumerate(ids[0])
        if place >= len(before)
    ]


def tokenizer_of(product: Product) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(product.files)


def evaluation(product: Product) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    folder = product.files / "evaluation"
    return read_rows(folder, "rows"), json.loads((folder / "metrics.json").read_text())


VARIANTS = {
    "accumulated": ("batch_size: 8, micro_batch_size: 2", ""),
    "padded": ("batch_size: 8, micro_batch_size: 8", ""),
    "not_a_divisor": ("batch_size: 12, micro_batch_size: 3", ""),
    "packed": ("batch_size: 2, packing: true", ""),
    "one_sequence": ("batch_size: 2, packing: true", "trl: {padding_free: true},"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_loss_is_the_mean_over_the_tokens(name: str, bench: StageHarness) -> None:
    params, more = VARIANTS[name]
    made = bench.run(recipe(stage("it", "sft", params, more)))
    rows, found = evaluation(made["it"])
    model, tokenizer = model_of(made["it"]), tokenizer_of(made["it"])
    data = read_rows(made["datasets.sums"].files, "test")
    tokens = [log_probs(model, tokenizer, row["prompt"], row["completion"]) for row in data]
    assert len({len(one) for one in tokens}) > 1
    assert [row["tokens"] for row in rows] == [len(one) for one in tokens]
    by_row = [-math.fsum(value for value, _ in one) / len(one) for one in tokens]
    assert [row["eval_loss"] for row in rows] == pytest.approx(by_row, rel=1e-4)
    every = [token for one in tokens for token in one]
    loss = -math.fsum(value for value, _ in every) / len(every)
    assert found["eval_loss"]["value"] == pytest.approx(loss, rel=1e-5)
    assert found["eval_perplexity"]["value"] == pytest.approx(math.exp(loss), rel=1e-4)
    accuracy = sum(right for _, right in every) / len(every)
    assert found["eval_mean_token_accuracy"]["value"] == pytest.approx(accuracy)


@pytest.mark.parametrize("size", [5, 16])
def test_the_rewards_of_kto_are_means_over_their_rows(size: int, bench: StageHarness) -> None:
    """With batches that do not divide the 34 rows: TRL's own means are over batches."""
    batch = f"batch_size: {2 * size}, micro_batch_size: {size}, beta: {BETA}"
    made = bench.run(recipe(stage("it", "kto", batch)))
    rows, found = evaluation(made["it"])
    tokenizer = tokenizer_of(made["it"])
    trained, reference = model_of(made["it"]), model_of(made["sft"])
    data = read_rows(made["datasets.sums"].files, "test")

    def reward(prompt: str, answer: str) -> float:
        new, old = (log_probs(model, tokenizer, prompt, answer) for model in (trained, reference))
        return BETA * (math.fsum(value for value, _ in new) - math.fsum(value for value, _ in old))

    means = [
        math.fsum(reward(row["prompt"], row[side]) for row in data) / len(data)
        for side in ("chosen", "rejected")
    ]
    assert sum(row["rows"] for row in rows) == 34
    assert found["eval_rewards/chosen"]["value"] == pytest.approx(means[0], rel=1e-3, abs=1e-5)
    assert found["eval_rewards/rejected"]["value"] == pytest.approx(means[1], rel=1e-3, abs=1e-5)
    assert found["eval_rewards/margins"]["value"] == pytest.approx(means[0] - means[1], rel=1e-3, abs=1e-5)
    losses = [(row["eval_loss"], row["rows"]) for row in rows]
    assert found["eval_loss"]["value"] == math.fsum(loss * weight for loss, weight in losses) / 34


def test_a_gate_compares_the_losses_of_the_same_rows(bench: StageHarness) -> None:
    """The trainings divide their rows differently; their held-out rows are evaluated one by one."""
    import numpy as np
    from scipy import stats

    gate = (
        "ship: {gate: [{metric: b.eval_loss, better_than: a.eval_loss}], on_fail: warn,"
        " on_inconclusive: warn}"
    )
    small = stage("a", "sft", "batch_size: 8, micro_batch_size: 4")
    made = bench.run(recipe(small, stage("b", "sft", "batch_size: 15, micro_batch_size: 5"), gate))
    (verdict,) = made["ship"].facts["conditions"]
    data = read_rows(made["datasets.sums"].files, "test")
    sums: list[Any] = []
    counts: Any = None
    for name in ("a", "b"):
        model, tokenizer = model_of(made[name]), tokenizer_of(made[name])
        tokens = [log_probs(model, tokenizer, row["prompt"], row["completion"]) for row in data]
        counts = np.array([len(one) for one in tokens])
        sums.append(np.array([-math.fsum(value for value, _ in one) for one in tokens]))
    means = [one.sum() / counts.sum() for one in sums]
    assert verdict["items"] == 17
    assert verdict["unpaired"] == 0
    assert verdict["baseline_value"] == pytest.approx(means[0], rel=1e-4)
    assert verdict["metric_value"] == pytest.approx(means[1], rel=1e-4)
    assert verdict["value"] == pytest.approx(means[0] - means[1], rel=1e-3)
    # The linearised difference of two ratios with the same weights.
    gains = (sums[0] - sums[1] - (means[0] - means[1]) * counts) / counts.mean() + (means[0] - means[1])
    error = gains.std(ddof=1) / math.sqrt(len(gains))
    reach = stats.t.ppf(0.975, len(gains) - 1) * error
    assert verdict["low"] == pytest.approx(gains.mean() - reach, rel=0.35, abs=0.35 * reach)
    assert verdict["high"] == pytest.approx(gains.mean() + reach, rel=0.35, abs=0.35 * reach)
    assert verdict["better"] == int((gains > 0).sum())


def test_batches_of_other_rows_are_not_paired(bench: StageHarness) -> None:
    """The loss of KTO compares the rows of a batch: an item is a batch."""
    stages = [
        stage(name, "kto", f"batch_size: 16, micro_batch_size: {size}")
        for name, size in (("a", 8), ("b", 16))
    ]
    gate = "ship: {gate: [{metric: b.eval_loss, better_than: a.eval_loss}], on_fail: warn}"
    plan = compile_plan(recipe(*stages, gate))
    step = plan.step("ship")
    bench.prepare_step(plan, step)
    assert bench.wait(step) != 0
    assert "divide the held-out rows differently" in bench.failure(step)["message"]


def test_a_loss_that_overflows_ends_the_stage(bench: StageHarness) -> None:
    """The weights are finite, and so is the loss of the only step before them."""
    text = recipe(stage("it", "sft", "batch_size: 8, warmup_steps: 0, max_grad_norm: 1.0e+30"))
    text = text.replace("max_steps: 4, learning_rate: 5.0e-3", "max_steps: 1, learning_rate: 1.0e+25")
    plan = compile_plan(text)
    step = plan.step("it")
    bench.prepare_step(plan, step)
    assert bench.wait(step) != 0
    assert "at step 1 the loss of every held-out row is NaN or infinite" in bench.failure(step)["message"]


def test_items_without_sizes_are_those_of_evals() -> None:
    condition: Any = type("Condition", (), {"text": "b better than a"})
    items = [MetricItems(values={0: 1.0}, bounds=None, rows=rows) for rows in (None, {0: 1}, {0: 2})]
    _check_same_items(condition, items[0], items[0])
    _check_same_items(condition, items[1], items[1])
    with pytest.raises(StepError, match="divide the held-out rows differently"):
        _check_same_items(condition, items[1], items[2])

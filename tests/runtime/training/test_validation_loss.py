"""Evaluations on held-out rows: equal to TRL's losses, without effect on the training, exact after a kill."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe
from tests.runtime.training.trl_by_hand import losses_by_hand

from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.metric_items import read_metric_items
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.products import Product
from posttrain.runtime.training.early_stopping import EarlyStopping
from posttrain.runtime.training.eval_callback import EvalCallback
from posttrain.runtime.training.validate_tokenized import validate_held_out_rows
from posttrain.runtime.training.validation_loss import EvaluatedItem, HeldOutEvaluation, mean_over_items
from posttrain.spec.step_params.train_params import EVALUATION_DIR, HeldOutMetric, InLoopEvalOptions

pytestmark = pytest.mark.slow


def stage(method: str = "sft", evaluate: str = "", params: str = "", more: str = "") -> str:
    measured = f" evaluate: {{data: sums.test, {evaluate}}}," if evaluate else ""
    given = "max_steps: 6, learning_rate: 5.0e-3, batch_size: 8, max_length: 64" + (params and f", {params}")
    it = f"it: {{train: {method}, model: sft, data: sums.train,{measured}{more} params: {{{given}}}}}"
    return recipe(it)


def saved_rows(product: Product) -> list[dict[str, Any]]:
    return read_rows(product.files / "evaluation", "rows")


def saved_metrics(product: Product) -> dict[str, Any]:
    return json.loads((product.files / "evaluation" / "metrics.json").read_text())


def weights(product: Product) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in product.files.glob("*.safetensors")}


@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "orpo", "reward_model"])
def test_losses_are_those_of_trl(method: str, bench: StageHarness, tmp_path: Path) -> None:
    """To the last bit: TRL by hand, and its own `evaluate`, with the product as the model."""
    alone = "micro_batch_size: 1" if method == "sft" else ""
    made = bench.run(stage(method, "eval_steps: 4", alone))
    size = 16 if method == "kto" else 1
    losses, evaluated = losses_by_hand(method, made, tmp_path, size)
    rows, found = saved_rows(made["it"]), saved_metrics(made["it"])
    assert [row["eval_loss"] for row in rows] == losses
    assert sum(row["rows"] for row in rows) == (34 if method == "kto" else 17)
    weighted = [(row["eval_loss"], row.get("tokens", row["rows"])) for row in rows]
    total = sum(weight for _, weight in weighted)
    assert found["eval_loss"]["value"] == math.fsum(loss * weight for loss, weight in weighted) / total
    assert metrics(made["it"], "eval/loss")[-1] == found["eval_loss"]["value"]
    # TRL's own means: of SFT over rows, of KTO's rewards over batches, however few rows the last one has.
    same = {"sft": [], "kto": ["eval_loss"]}.get(method, list(found))
    assert {name: found[name]["value"] for name in same} == pytest.approx(
        {name: evaluated[name] for name in same}, rel=1e-6
    )
    if method == "sft":
        assert sum(losses) / 17 == pytest.approx(evaluated["eval_loss"], rel=1e-6)


def test_a_loss_per_token_is_weighted_by_tokens(bench: StageHarness) -> None:
    """In batches of 8, with a last one of a single row."""
    batched = bench.run(stage("sft", "eval_steps: 6", "micro_batch_size: 8"))["it"]
    rows, found = saved_rows(batched), saved_metrics(batched)
    tokens = sum(row["tokens"] for row in rows)
    loss = math.fsum(row["eval_loss"] * row["tokens"] for row in rows) / tokens
    assert len({row["tokens"] for row in rows}) > 1
    assert found["eval_loss"]["value"] == loss
    assert found["eval_perplexity"]["value"] == math.exp(loss)
    right = sum(row["eval_mean_token_accuracy"] * row["tokens"] for row in rows)
    assert found["eval_mean_token_accuracy"]["value"] == pytest.approx(right / tokens)
    # The values that gates compare have the metric as their mean, and an interval around it.
    assert sum(row["node:eval_loss"] for row in rows) / len(rows) == pytest.approx(loss)
    assert found["eval_loss"]["low"] < loss < found["eval_loss"]["high"]


_DROPOUT = "adapter: {type: lora, lora_dropout: 0.2},"


@pytest.mark.parametrize(
    ("method", "params", "more"), [("sft", "packing: true", ""), ("sft", "", _DROPOUT), ("dpo", "", "")]
)
def test_weights_are_the_same_with_and_without(
    method: str, params: str, more: str, bench: StageHarness
) -> None:
    plain = bench.run(stage(method, "", params, more))["it"]
    measured = bench.run(stage(method, "eval_steps: 2", params, more))["it"]
    assert measured.key != plain.key
    assert weights(measured) == weights(plain)
    assert len(metrics(measured, "eval/loss")) == 3
    assert metrics(measured, "loss") == metrics(plain, "loss")


def test_the_best_weights_and_their_rows_are_the_product(bench: StageHarness) -> None:
    """A rate so high that the loss rises: the weights of an early step are the best, and training ends."""
    evaluate = (
        "eval_steps: 1, metric_for_best_model: eval_loss, keep: best, early_stopping_patience: 2,"
        " early_stopping_threshold: 0.0"
    )
    product = bench.run(
        stage("sft", evaluate, "warmup_steps: 0, max_grad_norm: 100.0").replace("5.0e-3", "0.5")
    )["it"]
    losses = metrics(product, "eval/loss")
    best = losses.index(min(losses))
    assert product.facts["best"] == {"metric": "eval_loss", "step": best + 1, "value": min(losses)}
    assert product.facts["steps"] == len(losses) == best + 3
    assert product.facts["metrics"] == saved_metrics(product)
    assert saved_metrics(product)["eval_loss"]["value"] == min(losses)


@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_stage_killed_during_an_evaluation_ends_with_the_same_bytes(keep: str, bench: StageHarness) -> None:
    """It evaluates nearly all the time: every pair alone, after every step."""
    evaluate = f"eval_steps: 1, metric_for_best_model: eval_loss, keep: {keep}, early_stopping_patience: 6"
    plan = compile_plan(stage("dpo", evaluate, "save_steps: 2, save_total_limit: 1"))
    step = plan.step("it")
    undisturbed = bench.run_step(plan, step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=2)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert any(event["kind"] == "resumed" for event in bench.events(step))
    again = bench.commit(step)
    assert again.content_digest == undisturbed.content_digest
    assert again.facts == undisturbed.facts
    assert metrics(again, "eval/loss") == metrics(undisturbed, "eval/loss")


def test_it_combines_with_evals(bench: StageHarness) -> None:
    evaluate = "eval_steps: 3, evals: [check], metric_for_best_model: eval_loss, keep: best"
    check = (
        "  check: {eval: it, data: sums.test, reward: solution, metrics: {format: format},"
        " sampling: {max_tokens: 4}}\n"
    )
    product = bench.run(stage("sft", evaluate) + check)["it"]
    assert len(metrics(product, "eval/loss")) == len(metrics(product, "eval/check.format")) == 2


def test_rows_without_a_token_with_a_loss_are_told() -> None:
    from datasets import Dataset

    kept = Dataset.from_dict({"input_ids": [[1], [2]]})
    trainer = SimpleNamespace(eval_dataset=kept, args=SimpleNamespace(max_length=8))
    validate_held_out_rows(trainer, 2)
    with pytest.raises(
        StepError, match=r"1 of 3 rows of `evaluate\.data` have no tokens with a loss within 8"
    ):
        validate_held_out_rows(trainer, 3)


def test_a_loss_that_is_not_finite_is_no_value() -> None:
    items = [EvaluatedItem(rows=1, values={"eval_loss": value}) for value in (1.0, math.nan)]
    assert mean_over_items("eval_loss", items) is None
    assert mean_over_items("eval_loss", items[:1]) == 1.0


def test_rows_that_are_not_finite_are_counted() -> None:
    metrics = {name: HeldOutMetric(kind="mean") for name in ("eval_loss", "eval_margin")}
    items = [
        EvaluatedItem(rows=1, values={"eval_loss": loss, "eval_margin": 1.0})
        for loss in (1.0, math.nan, math.inf)
    ]
    found = HeldOutEvaluation(values={"eval_margin": 1.0}, items=items, metrics=metrics, seed=1)
    assert found.items_not_finite() == {"eval_loss": 2}


class _Recorder:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def emit(self, kind: str, **fields: Any) -> None:
        assert kind == "warning"
        self.warnings.append(fields["message"])


def _callback(keep: str) -> tuple[EvalCallback, _Recorder]:
    options = InLoopEvalOptions(
        eval_steps=1,
        evals={},
        metrics={"eval_loss": HeldOutMetric(kind="mean")},
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        early_stopping_threshold=0.0,
        early_stopping_patience=None,
        keep=keep,  # pyright: ignore[reportArgumentType]
    )
    recorder = _Recorder()
    context: Any = SimpleNamespace(
        params=SimpleNamespace(evaluate=options), events=recorder, checkpoints=Path()
    )
    callback = EvalCallback.__new__(EvalCallback)
    callback.__dict__ |= {
        "_context": context,
        "_warned_not_finite": False,
        "early_stopping": EarlyStopping(options),
    }
    return callback, recorder


def test_single_rows_that_are_not_finite_are_warned_of_once() -> None:
    callback, recorder = _callback("best")
    items = [EvaluatedItem(rows=1, values={"eval_loss": loss}) for loss in (1.0, math.nan)]
    metrics = {"eval_loss": HeldOutMetric(kind="mean")}
    found = HeldOutEvaluation(values={}, items=items, metrics=metrics, seed=1)
    callback._check_finite(3, found)
    callback._check_finite(4, found)
    (said,) = recorder.warnings
    assert "at step 3: `eval_loss` in 1 of 2" in said
    broken = HeldOutEvaluation(values={}, items=items[1:], metrics=metrics, seed=1)
    with pytest.raises(StepError, match="at step 5 the loss of every held-out row is NaN"):
        callback._check_finite(5, broken)


def test_a_product_without_best_weights_says_so() -> None:
    callback, recorder = _callback("best")
    callback.warn_without_best()
    assert "no evaluation had a value of `eval_loss`" in recorder.warnings[0]
    assert callback.early_stopping is not None
    callback.early_stopping.update(1, {"eval_loss": 1.0})
    callback.warn_without_best()
    other, quiet = _callback("last")
    other.warn_without_best()
    assert (len(recorder.warnings), quiet.warnings) == (1, [])


def test_a_gate_on_a_metric_without_a_value_is_an_error(tmp_path: Path) -> None:
    items = [EvaluatedItem(rows=1, values={"eval_loss": loss}) for loss in (1.0, math.nan)]
    metrics = {"eval_loss": HeldOutMetric(kind="mean")}
    HeldOutEvaluation(values={}, items=items, metrics=metrics, seed=1).save(tmp_path / EVALUATION_DIR)
    with pytest.raises(StepError, match="no value of `eval_loss`"):
        read_metric_items(tmp_path, "eval_loss")

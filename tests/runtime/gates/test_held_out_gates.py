"""Gates over losses on held-out rows, which improve as they fall."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.gates.fake_eval_products import better_than, condition, run_gate

from posttrain.runtime.training.validation_loss import EvaluatedItem, HeldOutEvaluation, mean_over_items
from posttrain.spec.step_params.train_params import EVALUATION_DIR, HeldOutMetric

_METRICS = {
    "eval_loss": HeldOutMetric(kind="mean"),
    "eval_perplexity": HeldOutMetric(kind=None),
}
_TOKENS = [4, 9, 2, 7, 30, 5] * 20
_NOISE = random.Random(5)
_LOSSES = [1.0 + _NOISE.random() / 2 for _ in _TOKENS]


def write_training(folder: Path, losses: Sequence[float]) -> Path:
    """Write the product of a training with these losses per token."""
    folder.mkdir()
    pairs = zip(losses, _TOKENS, strict=True)
    items = [EvaluatedItem(rows=1, tokens=tokens, values={"eval_loss": loss}) for loss, tokens in pairs]
    values = {name: mean_over_items(name, items) for name in _METRICS}
    found = {name: value for name, value in values.items() if value is not None}
    HeldOutEvaluation(values=found, items=items, metrics=_METRICS, seed=1).save(folder / EVALUATION_DIR)
    return folder


def total_loss(losses: Sequence[float]) -> float:
    return sum(loss * tokens for loss, tokens in zip(losses, _TOKENS, strict=True)) / sum(_TOKENS)


def loss_gate(**given: Any) -> dict[str, Any]:
    return {**condition("at_most", "eval_loss", **given), "lower_is_better": True}


@pytest.mark.parametrize(("threshold", "verdict"), [(1.4, "pass"), (1.26, "inconclusive"), (1.1, "fail")])
def test_a_loss_against_a_threshold(threshold: float, verdict: str, tmp_path: Path) -> None:
    after = write_training(tmp_path / "after", _LOSSES)
    result = run_gate(tmp_path / "gate", {"after": after}, loss_gate(threshold=threshold))
    (found,) = result["conditions"]
    assert result["verdict"] == verdict
    assert found["value"] == pytest.approx(total_loss(_LOSSES))
    assert found["low"] < found["value"] < found["high"]
    assert found["items"] == 120


@pytest.mark.parametrize(
    ("gain", "margin", "verdict"),
    [(0.02, 0.0, "pass"), (-0.02, 0.0, "fail"), (0.02, 0.05, "fail"), (-0.02, -0.05, "pass")],
)
def test_a_lower_loss_is_better(gain: float, margin: float, verdict: str, tmp_path: Path) -> None:
    """Small gains on every row show, although the losses of the rows differ by much more."""
    lower = [loss - gain - 0.001 * (index % 3) for index, loss in enumerate(_LOSSES)]
    before = write_training(tmp_path / "before", _LOSSES)
    after = write_training(tmp_path / "after", lower)
    compared = {**better_than(margin, "eval_loss"), "lower_is_better": True}
    result = run_gate(tmp_path / "gate", {"before": before, "after": after}, compared)
    (found,) = result["conditions"]
    assert result["verdict"] == verdict
    assert found["value"] == pytest.approx(total_loss(_LOSSES) - total_loss(lower))
    assert found["metric_value"] == pytest.approx(total_loss(lower))
    assert found["baseline_value"] == pytest.approx(total_loss(_LOSSES))


def test_the_interval_is_that_of_a_ratio(tmp_path: Path) -> None:
    """Rows of very different lengths but equal losses per token: the length says nothing about the loss."""
    equal = [1.0 + 0.001 * (index % 5) for index in range(len(_TOKENS))]
    after = write_training(tmp_path / "after", equal)
    result = run_gate(tmp_path / "gate", {"after": after}, loss_gate(threshold=1.2))
    (found,) = result["conditions"]
    assert found["high"] - found["low"] < 0.01


def test_a_perplexity_beyond_the_numbers_has_no_upper_end(tmp_path: Path) -> None:
    """The mean is finite, and the exponent of the upper end of its interval is not."""
    losses = [600.0 if index % 2 else 740.0 for index in range(len(_TOKENS))]
    product = write_training(tmp_path / "diverged", losses)
    found = json.loads((product / EVALUATION_DIR / "metrics.json").read_text())
    assert found["eval_loss"]["high"] > 690
    assert (found["eval_perplexity"]["high"], found["eval_perplexity"]["kind"]) == (None, "mean")

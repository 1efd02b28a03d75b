"""Micro-batches of different sizes in the last step of an epoch."""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer
from transformers import Trainer

from posttrain.runtime.trl_compat.row_weighting import row_weighting_trainer

_KINDS: dict[str, Any] = {"plain": Trainer, "weighted": row_weighting_trainer(Trainer)}


def weight_after_step(folder: Path, kind: str, micro: int, accumulation: int) -> float:
    """The weight after one step on all 8 rows."""
    trainer = tiny_trainer(
        folder / f"{kind}-{micro}",
        _KINDS[kind],
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        optim="sgd",
        learning_rate=0.001,
        max_grad_norm=0.0,
        max_steps=1,
    )
    trainer.train()
    return trainer.model.layer.weight.item()


def test_the_trainer_gives_rows_of_a_smaller_micro_batch_more_weight(tmp_path: Path) -> None:
    whole = weight_after_step(tmp_path, "plain", 8, 1)
    divided = weight_after_step(tmp_path, "plain", 3, 3)
    assert abs(divided - whole) > 1e-4, obsolete("row_weighting")


@pytest.mark.parametrize(("micro", "accumulation"), [(3, 3), (5, 2), (7, 2), (6, 4)])
def test_with_weights_the_division_makes_no_difference(tmp_path: Path, micro: int, accumulation: int) -> None:
    whole = weight_after_step(tmp_path, "plain", 8, 1)
    assert weight_after_step(tmp_path, "weighted", micro, accumulation) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize(("micro", "accumulation"), [(8, 1), (4, 2), (2, 4)])
def test_micro_batches_of_one_size_are_left_as_they_are(
    tmp_path: Path, micro: int, accumulation: int
) -> None:
    plain, weighted = (weight_after_step(tmp_path, kind, micro, accumulation) for kind in _KINDS)
    assert weighted == plain

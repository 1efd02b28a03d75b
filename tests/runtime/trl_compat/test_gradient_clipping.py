"""Gradients of groups of weights that are clipped separately."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runtime.trl_compat.necessity import obsolete, public_names
from tests.runtime.trl_compat.tiny_trainer import LinearLoss, tiny_trainer
from transformers import Trainer

from posttrain.runtime.trl_compat.gradient_clipping import group_clipping_trainer


class TwoScales(LinearLoss):
    """Two weights whose gradients differ by a factor of thousand."""

    def __init__(self) -> None:
        super().__init__()
        self.small = torch.nn.Parameter(torch.ones(1))
        self.large = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: Any) -> dict[str, Any]:
        return {"loss": (self.small + 1000 * self.large).sum() + 0 * self.layer(x).sum()}


def steps_taken(folder: Path, kind: Any) -> list[float]:
    trainer = tiny_trainer(
        folder, kind, TwoScales(), max_steps=1, max_grad_norm=0.1, optim="sgd", learning_rate=1.0
    )
    trainer.train()
    return [1.0 - weight.item() for weight in (trainer.model.small, trainer.model.large)]


def test_the_trainer_clips_all_gradients_by_one_norm(tmp_path: Path) -> None:
    assert steps_taken(tmp_path, Trainer) == pytest.approx([1e-4, 0.1], rel=1e-3)
    assert public_names(Trainer, "clip", "norm") == set(), obsolete("gradient_clipping")


def test_each_group_has_its_own_norm(tmp_path: Path) -> None:
    norms: list[float] = []

    class GroupTrainer(group_clipping_trainer(Trainer)):
        @property
        def clipping_groups(self) -> Any:
            return [[self.model.small], [self.model.large]]

        def on_gradient_norms(self, given: Any) -> None:
            norms.extend(float(one) for one in given)

    assert steps_taken(tmp_path, GroupTrainer) == pytest.approx([0.1, 0.1], rel=1e-3)
    assert norms == pytest.approx([1.0, 1000.0])

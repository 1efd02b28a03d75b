"""The entropy bonus of GRPO over micro-batches with different numbers of tokens."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.runtime.trl_compat.necessity import obsolete
from trl.trainer.grpo_trainer import GRPOTrainer

from posttrain.runtime.trl_compat.entropy_weighting import entropy_weighting_trainer

_LENGTHS = [3, 1, 4, 6, 6, 1, 2, 3]  # tokens of the completions of two optimizer steps


def test_trl_averages_the_bonus_over_a_micro_batch() -> None:
    source = " ".join(inspect.getsource(GRPOTrainer._compute_loss).split())
    bonus = "(entropies * effective_mask).sum() / effective_mask.sum().clamp(min=1.0) / accumulation_factor"
    assert bonus in source, obsolete("entropy_weighting")


class FakeTrainer:
    """TRL's bonus, for entropies that are the numbers of the completions."""

    use_adaptive_entropy = False
    top_entropy_quantile = 1.0

    def __init__(self, micro: int, masked: bool = False) -> None:
        mask = torch.tensor([[1] * length + [0] * (6 - length) for length in _LENGTHS])
        numbers = torch.arange(len(_LENGTHS)).float()[:, None].expand_as(mask)
        batch = {"completion_mask": mask, "number": numbers}
        if masked:
            batch["tool_mask"] = torch.tensor([[1, 0, 1, 1, 1, 1]]).expand_as(mask)
        parts = range(0, len(_LENGTHS), micro)
        self._buffered_inputs = [{k: v[at : at + micro] for k, v in batch.items()} for at in parts]
        self.args = SimpleNamespace(steps_per_generation=len(self._buffered_inputs))
        self.current_gradient_accumulation_steps = len(self._buffered_inputs) // 2
        self.accelerator = SimpleNamespace(num_processes=1, reduce=lambda one, reduction: one)
        self.entropy_coef, self._step = 0.5, 0
        self._metrics: dict[str, Any] = {"train": {}}

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        mean = (
            (inputs["number"] * mask).sum()
            / mask.sum().clamp(min=1)
            / self.current_gradient_accumulation_steps
        )
        self._metrics["train"].setdefault("entropy_coef", []).append(self.entropy_coef)
        return self.entropy_coef * mean

    def bonus(self, step: int) -> float:
        """The bonus of the first or the second optimizer step."""
        size, found = self.current_gradient_accumulation_steps, 0.0
        for self._step in range(step * size, (step + 1) * size):
            found += float(self._compute_loss(None, self._buffered_inputs[self._step]))
        return found


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("step", [0, 1])
def test_the_bonus_is_that_of_the_whole_step(step: int, masked: bool) -> None:
    weighted: Any = entropy_weighting_trainer(FakeTrainer)
    whole = FakeTrainer(4, masked).bonus(step)
    assert weighted(4, masked).bonus(step) == whole
    for micro in (1, 2):
        assert FakeTrainer(micro, masked).bonus(step) != pytest.approx(whole, rel=1e-3)
        trainer = weighted(micro, masked)
        assert trainer.bonus(step) == pytest.approx(whole, rel=1e-6)
        assert (trainer.entropy_coef, set(trainer._metrics["train"]["entropy_coef"])) == (0.5, {0.5})

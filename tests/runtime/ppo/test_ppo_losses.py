"""The clipped losses, computed by hand: values, clipping, and gradients."""

import math

import pytest
import torch

from posttrain.runtime.ppo.ppo_losses import policy_loss, value_loss


def row(*given: float) -> torch.Tensor:
    return torch.tensor(given, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.0, 2.0, -2.0, False),
        (1.1, 2.0, -2.2, False),
        (1.5, 2.0, -2.6, True),  # clipped at 1.3
        (0.5, 2.0, -1.0, False),  # not clipped: the advantage is negative
        (0.5, -2.0, 1.6, True),  # clipped at 0.8
        (1.5, -2.0, 3.0, False),
    ],
)
def test_the_worse_of_two_readings_counts(ratio: float, advantage: float, loss: float, clipped: bool) -> None:
    now = row(math.log(ratio))
    found, cut = policy_loss(
        now, torch.zeros(1), torch.tensor([advantage]), cliprange=0.2, cliprange_high=0.3
    )
    assert float(found.detach()) == pytest.approx(loss)
    assert bool(cut) is clipped
    found.sum().backward()
    assert float(now.grad) == pytest.approx(0.0 if clipped else -advantage * ratio)


def test_at_the_start_the_gradient_is_that_of_the_plain_policy_gradient() -> None:
    now, gains = row(-1.0, -2.0, -0.5), torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    found, cut = policy_loss(now, now.detach(), gains, 0.2, 0.2)
    found.sum().backward()
    assert now.grad.tolist() == (-gains).tolist()
    assert cut.sum() == 0


def test_a_ratio_beyond_all_bounds_stays_a_number() -> None:
    found, _ = policy_loss(row(0.0), torch.tensor([-1000.0]), torch.tensor([-1.0]), 0.2, 0.2)
    assert math.isfinite(float(found))


@pytest.mark.parametrize(
    ("value", "loss", "clipped"),
    [
        (0.0, 2.0, False),
        (0.3, 1.445, False),
        (1.0, 1.125, True),  # clipped at 0.5: (0.5 - 2)^2 / 2, and no gradient
        (-1.0, 4.5, False),  # moving away from the return is not clipped
        (3.5, 1.125, False),  # outside the range, both are 1.125
        (4.0, 2.0, False),
    ],
)
def test_a_value_moves_so_far_and_no_further(value: float, loss: float, clipped: bool) -> None:
    now = row(value)
    found, held = value_loss(now, torch.zeros(1), torch.tensor([2.0]), cliprange=0.5)
    assert float(found.detach()) == pytest.approx(loss)
    assert bool(held) is clipped
    if clipped:
        found.sum().backward()
        assert float(now.grad) == 0.0

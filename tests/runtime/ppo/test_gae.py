"""Token rewards and advantages: examples computed by hand, and properties."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.runtime.ppo.gae import (
    adapt_kl_coef,
    explained_variance,
    gae_advantages,
    masked_mean,
    masked_whiten,
    token_kl,
    token_rewards,
)


def rows(*given: list[float]) -> torch.Tensor:
    return torch.tensor(given, dtype=torch.float64)


@st.composite
def episodes(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rewards, values and a mask with arbitrary holes."""
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    rewards, values = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = (torch.rand(shape, generator=generator) < draw(st.floats(0.2, 1.0))).double()
    return rewards, values, mask


def gae_by_definition(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """The definition: the discounted sum of all later TD errors."""
    ahead = [*values, 0.0][1:]
    surprises = [r + gamma * after - v for r, v, after in zip(rewards, values, ahead, strict=True)]
    return [
        sum((gamma * lam) ** (later - token) * surprises[later] for later in range(token, len(values)))
        for token in range(len(values))
    ]


def test_the_score_is_paid_at_the_last_token_of_the_policy_s_own() -> None:
    """In an episode, the policy's tokens alternate with observations."""
    mask = rows([1, 1, 0, 0, 1, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0])
    found = token_rewards(rows([2.0], [3.0], [4.0]).squeeze(1), mask, 0.5, mask)
    assert found.tolist() == [[-0.5, -0.5, 0, 0, 1.5, 0], [-0.5, -0.5, 2.5, 0, 0, 0], [0.0] * 6]


def test_advantages_by_hand() -> None:
    # TD errors: 0 + .5*2 - 1 = 0;  0 + .5*4 - 2 = 0;  3 - 4 = -1;  discounted by .5 * .5 per token
    found, returns = gae_advantages(rows([0, 0, 3]), rows([1, 2, 4]), rows([1, 1, 1]), 0.5, 0.5)
    assert found.tolist() == [[-0.0625, -0.25, -1.0]]
    assert returns.tolist() == [[0.9375, 1.75, 3.0]]


def test_what_is_padded_changes_nothing() -> None:
    found, returns = gae_advantages(
        rows([0, 0, 3, 99, -99]), rows([1, 2, 4, 7, -7]), rows([1, 1, 1, 0, 0]), 0.5, 0.5
    )
    assert found.tolist() == [[-0.0625, -0.25, -1.0, 0, 0]]
    assert returns.tolist() == [[0.9375, 1.75, 3.0, 0, 0]]


@settings(max_examples=60)
@given(episodes(), st.floats(0.1, 1.0), st.floats(0.0, 1.0))
def test_advantages_are_what_they_are_defined_as(
    episode: tuple[torch.Tensor, ...], gamma: float, lam: float
) -> None:
    """Tokens outside the mask have no effect, wherever they are."""
    rewards, values, mask = episode
    found, returns = gae_advantages(rewards, values, mask, gamma, lam)
    for row in range(len(mask)):
        kept = mask[row].bool()
        expected = gae_by_definition(rewards[row][kept].tolist(), values[row][kept].tolist(), gamma, lam)
        assert found[row][kept].tolist() == pytest.approx(expected)
        assert returns[row][kept].tolist() == pytest.approx((values[row][kept] + rows(expected)[0]).tolist())
    assert (found[mask == 0] == 0).all()
    assert (returns[mask == 0] == 0).all()


@settings(max_examples=40)
@given(episodes())
def test_with_lam_one_they_are_returns_minus_values(episode: tuple[torch.Tensor, ...]) -> None:
    rewards, values, mask = episode
    found, returns = gae_advantages(rewards, values, mask, 1.0, 1.0)
    paid = rewards * mask
    later = paid.flip(1).cumsum(1).flip(1)
    torch.testing.assert_close(found, (later - values) * mask)
    torch.testing.assert_close(returns, later * mask)


@settings(max_examples=40)
@given(episodes(), st.floats(0.1, 1.0))
def test_with_lam_zero_they_are_the_surprise_of_one_token(
    episode: tuple[torch.Tensor, ...], gamma: float
) -> None:
    rewards, values, _ = episode
    found, _ = gae_advantages(rewards, values, torch.ones_like(values), gamma, 0.0)
    after = torch.cat([values[:, 1:], torch.zeros(len(values), 1, dtype=values.dtype)], dim=1)
    torch.testing.assert_close(found, rewards + gamma * after - values)


def test_values_that_foretell_everything_leave_no_advantage() -> None:
    rewards = rows([0, 0, 2], [0, 1, 0])
    returns = rows([2, 2, 2], [1, 1, 0])
    found, again = gae_advantages(rewards, returns, torch.ones_like(returns), 1.0, 0.7)
    assert found.abs().max() == 0
    assert again.tolist() == returns.tolist()


def test_a_score_is_paid_at_the_last_token_and_divergence_at_each() -> None:
    mask = rows([1, 1, 0], [1, 1, 1])
    paid = token_rewards(rows([2, -1])[0], rows([0.1, 0.2, 9], [0.3, 0, 0.5]), 0.5, mask)
    torch.testing.assert_close(paid, rows([-0.05, 1.9, 0], [-0.15, 0, -1.25]))


_POLICY_PROBS = np.array([0.5, 0.3, 0.2])
_REFERENCE_PROBS = np.array([0.4, 0.4, 0.2])


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_estimators_are_right_on_average(estimator: str) -> None:
    """The expectation over all tokens under the policy."""
    found = token_kl(
        torch.tensor(np.log(_POLICY_PROBS)), torch.tensor(np.log(_REFERENCE_PROBS)), estimator
    ).numpy()
    assert (_POLICY_PROBS * found).sum() == pytest.approx(
        (_POLICY_PROBS * np.log(_POLICY_PROBS / _REFERENCE_PROBS)).sum()
    )


def test_k2_is_half_the_square_and_near_the_divergence() -> None:
    found = token_kl(
        torch.tensor(np.log(_POLICY_PROBS)), torch.tensor(np.log(_REFERENCE_PROBS)), "k2"
    ).numpy()
    assert found == pytest.approx(np.log(_POLICY_PROBS / _REFERENCE_PROBS) ** 2 / 2)
    assert (_POLICY_PROBS * found).sum() == pytest.approx(
        (_POLICY_PROBS * np.log(_POLICY_PROBS / _REFERENCE_PROBS)).sum(), rel=0.05
    )


def test_k3_by_hand_and_never_negative() -> None:
    found = token_kl(rows([math.log(0.5), -1.0, -60.0]), rows([math.log(0.25), -1.0, 0.0]), "k3")[0]
    # the reference has half the probability: 1/2 - 1 + ln 2
    assert float(found[0]) == pytest.approx(math.log(2) - 0.5)
    assert float(found[1]) == 0
    assert math.isfinite(float(found[2]))
    drawn = -4 * torch.rand(2, 500, dtype=torch.float64)
    assert (token_kl(drawn[0], drawn[1], "k3") >= 0).all()
    assert (token_kl(drawn[0], drawn[1], "k2") >= 0).all()


def test_whitened_as_numpy_has_it() -> None:
    values, mask = rows([1, 2, 9], [4, 8, 9]), rows([1, 1, 0], [1, 1, 0])
    kept = np.array([1.0, 2.0, 4.0, 8.0])
    expected = (kept - kept.mean()) / kept.std(ddof=1)
    assert masked_whiten(values, mask)[mask.bool()].numpy() == pytest.approx(expected)
    assert masked_whiten(values, mask)[:, 2].tolist() == [0, 0]


def test_whitened_over_several_processes_is_as_over_one() -> None:
    values, mask = torch.randn(6, 5, dtype=torch.float64), (torch.rand(6, 5) < 0.7).double()
    halves = [(values[:3], mask[:3]), (values[3:], mask[3:])]

    def sums(half: int) -> list[torch.Tensor]:
        """The values that this half sends to the other processes, in the order of the calls."""
        own, said = halves[half], list[torch.Tensor]()
        whole = [mask.sum(), (values * mask).sum(), None]
        mean = whole[1] / whole[0]
        whole[2] = ((values - mean) * mask).square().sum()
        masked_whiten(*own, lambda part: said.append(part) or whole[len(said) - 1])
        return said

    both = [one + other for one, other in zip(sums(0), sums(1), strict=True)]
    for half in (0, 1):
        totals = iter(both)
        found = masked_whiten(*halves[half], lambda _, totals=totals: next(totals))
        torch.testing.assert_close(found, masked_whiten(values, mask)[half * 3 :][:3])


@pytest.mark.parametrize("mask", [[0, 0], [1, 0]])
def test_with_nothing_to_compare_nothing_is_gained(mask: list[float]) -> None:
    assert masked_whiten(rows([3, 5]), rows(mask)).tolist() == [[0, 0]]


def test_explained_variance() -> None:
    returns, mask = rows([1, 2, 3, 99]), rows([1, 1, 1, 0])
    assert explained_variance(returns + 5, returns, mask) == pytest.approx(1.0)  # up to a constant
    assert explained_variance(rows([7, 7, 7, 7]), returns, mask) == pytest.approx(0.0)
    assert explained_variance(-returns, returns, mask) == pytest.approx(-3.0)
    assert explained_variance(returns, rows([2, 2, 2, 2]), mask) == 0.0


def test_the_weight_of_the_divergence_follows_its_target() -> None:
    assert adapt_kl_coef(0.1, 6.6, 6.0, 100, 1000) == pytest.approx(0.1 * 1.01)
    assert adapt_kl_coef(0.1, 99.0, 6.0, 100, 1000) == pytest.approx(0.1 * 1.02)  # 20% at most
    assert adapt_kl_coef(0.1, 0.0, 6.0, 100, 1000) == pytest.approx(0.1 * 0.98)
    assert adapt_kl_coef(0.1, 6.0, 6.0, 100, 1000) == 0.1


def test_the_mean_over_a_mask() -> None:
    assert float(masked_mean(rows([1, 2, 30]), rows([1, 1, 0]))) == 1.5
    assert float(masked_mean(rows([1, 2, 30]), rows([0, 0, 0]))) == 0.0

"""The tokens of a rollout that the loss covers, and their rewards and advantages."""

from dataclasses import replace

import pytest
import torch

from posttrain.runtime.ppo.rollout_buffer import (
    AdvantageConfig,
    RolloutBuffer,
    ScoredRollouts,
    build_rollout_buffer,
)
from posttrain.runtime.ppo.rollout_generation import mask_completions

# Two prompts of two tokens; completions of three: one ends after its second token, one is truncated.
TOKENS = torch.tensor([[0, 5, 6, 1, 0], [7, 5, 6, 7, 8]])
ADVANTAGE_CONFIG = AdvantageConfig(
    kl_coef=0.5,
    kl_estimator="k1",
    gamma=1.0,
    lam=1.0,
    whiten_advantages=False,
    mask_truncated_completions=False,
    missing_eos_penalty=0.0,
    all_reduce_sum=lambda part: part,
)


def scored_rollouts(scores: list[float | None]) -> ScoredRollouts:
    written = mask_completions(TOKENS, torch.tensor([[0, 1], [1, 1]]), [1])
    return ScoredRollouts(
        generated=written,
        logprobs=torch.full((2, 3), -1.0),
        values=torch.tensor([[1.0, 2.0, 9.0], [0.0, 0.5, 1.0]]),
        entropies=torch.ones(2, 3),
        ref_logprobs=torch.full((2, 3), -1.2),
        scores=scores,
    )


def test_scores_less_divergence_less_values() -> None:
    buffer, metrics = build_rollout_buffer(scored_rollouts([3.0, -1.0]), ADVANTAGE_CONFIG)
    # each token has a KL penalty of 0.5 * 0.2, and gets the rewards that follow it
    torch.testing.assert_close(buffer.returns, torch.tensor([[2.8, 2.9, 0.0], [-1.3, -1.2, -1.1]]))
    torch.testing.assert_close(buffer.advantages, torch.tensor([[1.8, 0.9, 0.0], [-1.3, -1.7, -2.1]]))
    assert metrics["reward"] == 1.0
    assert metrics["reward_std"] == 2.0
    assert metrics["frac_reward_zero_std"] == 0.0
    assert metrics["kl"] == pytest.approx(0.2)
    assert metrics["kl_per_completion"] == pytest.approx(0.5)  # 0.4 and 0.6
    assert metrics["completions/mean_length"] == 2.5
    assert metrics["completions/clipped_ratio"] == 0.5
    assert metrics["entropy"] == 1.0


def test_a_completion_without_a_score_is_not_learnt_from() -> None:
    buffer, metrics = build_rollout_buffer(
        scored_rollouts([3.0, None]), replace(ADVANTAGE_CONFIG, whiten_advantages=True)
    )
    assert buffer.mask.tolist() == [[1, 1, 0], [0, 0, 0]]
    assert buffer.advantages[1].tolist() == [0, 0, 0]
    # normalized over only the two tokens of the other completion
    torch.testing.assert_close(buffer.advantages[0, :2], torch.tensor([0.5, -0.5]) * 2**0.5)
    assert metrics["reward"] == 3.0


def test_without_any_score_there_is_no_reward_to_tell() -> None:
    buffer, metrics = build_rollout_buffer(scored_rollouts([None, None]), ADVANTAGE_CONFIG)
    assert buffer.mask.sum() == 0
    assert "reward" not in metrics


def test_equal_scores_have_no_deviation() -> None:
    assert (
        build_rollout_buffer(scored_rollouts([0.1, 0.1]), ADVANTAGE_CONFIG)[1]["frac_reward_zero_std"] == 1.0
    )


def test_a_cut_completion_can_be_left_out_or_charged_for() -> None:
    left_out, _ = build_rollout_buffer(
        scored_rollouts([3.0, -1.0]), replace(ADVANTAGE_CONFIG, mask_truncated_completions=True)
    )
    assert left_out.mask.tolist() == [[1, 1, 0], [0, 0, 0]]
    charged, metrics = build_rollout_buffer(
        scored_rollouts([3.0, -1.0]), replace(ADVANTAGE_CONFIG, missing_eos_penalty=2.0)
    )
    torch.testing.assert_close(charged.returns, torch.tensor([[2.8, 2.9, 0.0], [-3.3, -3.2, -3.1]]))
    assert metrics["reward"] == 1.0  # the reported reward has no penalty


def test_without_a_reference_nothing_is_paid_for_divergence() -> None:
    buffer, metrics = build_rollout_buffer(
        replace(scored_rollouts([3.0, -1.0]), ref_logprobs=None), ADVANTAGE_CONFIG
    )
    torch.testing.assert_close(buffer.returns, torch.tensor([[3.0, 3.0, 0.0], [-1.0, -1.0, -1.0]]))
    assert "kl" not in metrics


def test_rows_are_taken_without_columns_that_are_padding() -> None:
    buffer, _ = build_rollout_buffer(scored_rollouts([3.0, -1.0]), ADVANTAGE_CONFIG)
    first = buffer.select([0])
    assert first.tokens.tolist() == [[5, 6, 1]]
    assert first.completion_length == 2
    assert first.returns.tolist() == buffer.returns[:1, :2].tolist()
    both = buffer.select([1, 0])
    assert both.tokens.tolist() == TOKENS[[1, 0]].tolist()
    assert isinstance(both, RolloutBuffer)
    assert both.mask.tolist() == [[1, 1, 1], [1, 1, 0]]

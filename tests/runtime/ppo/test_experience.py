"""What is learnt from a set of completions: which of their tokens, paid how much."""

from dataclasses import replace

import pytest
import torch

from posttrain.runtime.ppo.experience import Experience, Judged, Terms, experience
from posttrain.runtime.ppo.writing import marked

# Two prompts of two tokens; completions of three: one ends after its second token, one is cut.
TOKENS = torch.tensor([[0, 5, 6, 1, 0], [7, 5, 6, 7, 8]])
TERMS = Terms(
    beta=0.5,
    estimator="k1",
    gamma=1.0,
    lam=1.0,
    whiten=False,
    skip_cut=False,
    cut_penalty=0.0,
    total=lambda part: part,
)


def judged(scores: list[float | None]) -> Judged:
    written = marked(TOKENS, torch.tensor([[0, 1], [1, 1]]), [1])
    return Judged(
        written=written,
        logprobs=torch.full((2, 3), -1.0),
        values=torch.tensor([[1.0, 2.0, 9.0], [0.0, 0.5, 1.0]]),
        entropies=torch.ones(2, 3),
        reference=torch.full((2, 3), -1.2),
        scores=scores,
    )


def test_scores_less_divergence_less_values() -> None:
    made, figures = experience(judged([3.0, -1.0]), TERMS)
    # each token costs 0.5 * 0.2; what follows it is paid to it
    torch.testing.assert_close(made.returns, torch.tensor([[2.8, 2.9, 0.0], [-1.3, -1.2, -1.1]]))
    torch.testing.assert_close(made.advantages, torch.tensor([[1.8, 0.9, 0.0], [-1.3, -1.7, -2.1]]))
    assert figures["reward"] == 1.0
    assert figures["reward_std"] == 2.0
    assert figures["frac_reward_zero_std"] == 0.0
    assert figures["kl"] == pytest.approx(0.2)
    assert figures["kl_of_completion"] == pytest.approx(0.5)  # 0.4 and 0.6
    assert figures["completions/mean_length"] == 2.5
    assert figures["completions/clipped_ratio"] == 0.5
    assert figures["entropy"] == 1.0


def test_a_completion_without_a_score_is_not_learnt_from() -> None:
    made, figures = experience(judged([3.0, None]), replace(TERMS, whiten=True))
    assert made.mask.tolist() == [[1, 1, 0], [0, 0, 0]]
    assert made.advantages[1].tolist() == [0, 0, 0]
    # whitened over the other's two tokens alone
    torch.testing.assert_close(made.advantages[0, :2], torch.tensor([0.5, -0.5]) * 2**0.5)
    assert figures["reward"] == 3.0


def test_without_any_score_there_is_no_reward_to_tell() -> None:
    made, figures = experience(judged([None, None]), TERMS)
    assert made.mask.sum() == 0
    assert "reward" not in figures


def test_equal_scores_are_told_as_flat() -> None:
    assert experience(judged([0.1, 0.1]), TERMS)[1]["frac_reward_zero_std"] == 1.0


def test_a_cut_completion_can_be_left_out_or_charged_for() -> None:
    left_out, _ = experience(judged([3.0, -1.0]), replace(TERMS, skip_cut=True))
    assert left_out.mask.tolist() == [[1, 1, 0], [0, 0, 0]]
    charged, figures = experience(judged([3.0, -1.0]), replace(TERMS, cut_penalty=2.0))
    torch.testing.assert_close(charged.returns, torch.tensor([[2.8, 2.9, 0.0], [-3.3, -3.2, -3.1]]))
    assert figures["reward"] == 1.0  # what the reward says is told as it is


def test_without_a_reference_nothing_is_paid_for_divergence() -> None:
    made, figures = experience(replace(judged([3.0, -1.0]), reference=None), TERMS)
    torch.testing.assert_close(made.returns, torch.tensor([[3.0, 3.0, 0.0], [-1.0, -1.0, -1.0]]))
    assert "kl" not in figures


def test_rows_are_taken_without_columns_that_are_padding() -> None:
    made, _ = experience(judged([3.0, -1.0]), TERMS)
    first = made.at([0])
    assert first.tokens.tolist() == [[5, 6, 1]]
    assert first.count == 2
    assert first.returns.tolist() == made.returns[:1, :2].tolist()
    both = made.at([1, 0])
    assert both.tokens.tolist() == TOKENS[[1, 0]].tolist()
    assert isinstance(both, Experience)
    assert both.mask.tolist() == [[1, 1, 1], [1, 1, 0]]

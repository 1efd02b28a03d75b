"""What the policy has done and what is learnt from it: completions with all that is known of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.ppo.gae import (
    KlEstimator,
    explained_variance,
    gae_advantages,
    masked_mean,
    masked_whiten,
    token_kl,
    token_rewards,
)
from posttrain.runtime.ppo.rollout_generation import GeneratedCompletions


@dataclass(frozen=True)
class RolloutBuffer:
    """Rows of a set of completions, from which optimizer steps learn."""

    tokens: Any
    attention: Any
    # 1.0 on each token that is learnt from.
    mask: Any
    # As they were when the completions were written.
    logprobs: Any
    values: Any
    advantages: Any
    returns: Any

    @property
    def completion_length(self) -> int:
        return self.mask.shape[1]

    def select(self, places: Sequence[int]) -> "RolloutBuffer":
        """Some of the rows, without columns that are padding in all of them."""
        tokens, attention = self.tokens[places], self.attention[places]
        used = attention.sum(dim=0).nonzero()
        first, end = int(used[0]), int(used[-1]) + 1
        start = self.tokens.shape[1] - self.completion_length
        own = [one[places][:, : end - start] for one in self._token_columns()]
        return RolloutBuffer(tokens[:, first:end], attention[:, first:end], *own)

    def _token_columns(self) -> tuple[Any, ...]:
        return self.mask, self.logprobs, self.values, self.advantages, self.returns


@dataclass(frozen=True, kw_only=True)
class ScoredRollouts:
    """Written completions, as the models and the reward see them."""

    generated: GeneratedCompletions
    logprobs: Any
    values: Any
    entropies: Any
    # None without a reference.
    ref_logprobs: Any
    # The reward of each completion; None where it has none.
    scores: list[float | None]


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig:
    """How experience is made of what was judged. `total` sums up over all processes."""

    kl_coef: float
    kl_estimator: KlEstimator
    gamma: float
    lam: float
    whiten_advantages: bool
    mask_truncated_completions: bool
    missing_eos_penalty: float
    all_reduce_sum: Callable[[Any], Any]


def build_rollout_buffer(
    judged: ScoredRollouts, terms: AdvantageConfig
) -> tuple[RolloutBuffer, dict[str, float]]:
    """What is learnt from, and the figures of it."""
    written, mask = judged.generated, judged.generated.mask
    diverged = mask * 0 if judged.ref_logprobs is None else _masked_kl(judged, terms)
    rewards = token_rewards(_completion_rewards(judged, terms), diverged, terms.kl_coef, mask)
    found, returns = gae_advantages(rewards, judged.values * mask, mask, terms.gamma, terms.lam)
    learnt = mask * _learning_mask(judged, terms).unsqueeze(1)
    gains = masked_whiten(found, learnt, terms.all_reduce_sum) if terms.whiten_advantages else found * learnt
    made = RolloutBuffer(
        written.tokens, written.attention, learnt, judged.logprobs, judged.values, gains, returns
    )
    figures = _rollout_metrics(judged, diverged)
    return made, figures | {"values/explained": explained_variance(judged.values, returns, learnt)}


def _masked_kl(judged: ScoredRollouts, terms: AdvantageConfig) -> Any:
    return token_kl(judged.logprobs, judged.ref_logprobs, terms.kl_estimator) * judged.generated.mask


def _completion_rewards(judged: ScoredRollouts, terms: AdvantageConfig) -> Any:
    """What each completion is paid. One without a score is paid nothing, and nothing is learnt from it."""
    scores = judged.values.new_tensor([0.0 if score is None else score for score in judged.scores])
    return scores - terms.missing_eos_penalty * (~judged.generated.ended).float()


def _learning_mask(judged: ScoredRollouts, terms: AdvantageConfig) -> Any:
    """1.0 for each completion that is learnt from."""
    kept = judged.values.new_tensor([float(score is not None) for score in judged.scores])
    return kept * judged.generated.ended.float() if terms.mask_truncated_completions else kept


def _rollout_metrics(judged: ScoredRollouts, diverged: Any) -> dict[str, float]:
    written, mask = judged.generated, judged.generated.mask
    lengths = mask.sum(dim=1)
    figures = {
        "entropy": float(masked_mean(judged.entropies, mask)),
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float((~written.ended).float().mean()),
        "values/mean": float(masked_mean(judged.values, mask)),
        **_reward_metrics([score for score in judged.scores if score is not None]),
    }
    if judged.ref_logprobs is not None:
        figures["kl"] = float(masked_mean(diverged, mask))
        figures["kl_of_completion"] = float(diverged.sum(dim=1).mean())
    return figures


def _reward_metrics(scores: list[float]) -> dict[str, float]:
    if not scores:
        return {}
    mean = sum(scores) / len(scores)
    spread = (sum((score - mean) ** 2 for score in scores) / len(scores)) ** 0.5
    return {"reward": mean, "reward_std": spread, "frac_reward_zero_std": float(min(scores) == max(scores))}

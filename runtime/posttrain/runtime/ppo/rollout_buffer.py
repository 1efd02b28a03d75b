"""The rollout buffer: completions with log-probabilities, values, advantages and returns."""

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
    """The completions of a rollout, as the optimizer steps use them."""

    tokens: Any
    attention: Any
    # 1.0 on each token that the loss covers.
    mask: Any
    # The outputs of the models at the time of generation.
    logprobs: Any
    values: Any
    advantages: Any
    returns: Any

    @property
    def completion_length(self) -> int:
        return self.mask.shape[1]

    def select(self, indices: Sequence[int]) -> "RolloutBuffer":
        """Return some of the rows, without the columns that are padding in all of them."""
        tokens, attention = self.tokens[indices], self.attention[indices]
        used = attention.sum(dim=0).nonzero()
        first, end = int(used[0]), int(used[-1]) + 1
        start = self.tokens.shape[1] - self.completion_length
        own = [one[indices][:, : end - start] for one in self._token_columns()]
        return RolloutBuffer(tokens[:, first:end], attention[:, first:end], *own)

    def _token_columns(self) -> tuple[Any, ...]:
        return self.mask, self.logprobs, self.values, self.advantages, self.returns


@dataclass(frozen=True, kw_only=True)
class ScoredRollouts:
    """Completions with their rewards and the outputs of the models."""

    generated: GeneratedCompletions
    logprobs: Any
    values: Any
    entropies: Any
    # None without a reference model.
    ref_logprobs: Any
    # The reward of each completion; None for a completion without a score.
    scores: list[float | None]


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig:
    """Settings for the computation of advantages. `all_reduce_sum` sums over all processes."""

    kl_coef: float
    kl_estimator: KlEstimator
    gamma: float
    lam: float
    whiten_advantages: bool
    mask_truncated_completions: bool
    missing_eos_penalty: float
    all_reduce_sum: Callable[[Any], Any]


def build_rollout_buffer(
    scored: ScoredRollouts, config: AdvantageConfig
) -> tuple[RolloutBuffer, dict[str, float]]:
    """Build the buffer from scored rollouts. Returns it and its metrics."""
    generated, mask = scored.generated, scored.generated.mask
    kl = mask * 0 if scored.ref_logprobs is None else _masked_kl(scored, config)
    rewards = token_rewards(_completion_rewards(scored, config), kl, config.kl_coef, mask)
    raw, returns = gae_advantages(rewards, scored.values * mask, mask, config.gamma, config.lam)
    learning_mask = mask * _learning_mask(scored, config).unsqueeze(1)
    advantages = (
        masked_whiten(raw, learning_mask, config.all_reduce_sum)
        if config.whiten_advantages
        else raw * learning_mask
    )
    buffer = RolloutBuffer(
        generated.tokens,
        generated.attention,
        learning_mask,
        scored.logprobs,
        scored.values,
        advantages,
        returns,
    )
    metrics = _rollout_metrics(scored, kl)
    return buffer, metrics | {
        "values/explained_variance": explained_variance(scored.values, returns, learning_mask)
    }


def _masked_kl(scored: ScoredRollouts, config: AdvantageConfig) -> Any:
    return token_kl(scored.logprobs, scored.ref_logprobs, config.kl_estimator) * scored.generated.mask


def _completion_rewards(scored: ScoredRollouts, config: AdvantageConfig) -> Any:
    """Return the reward of each completion. A missing score becomes 0; the loss excludes such completions."""
    scores = scored.values.new_tensor([0.0 if score is None else score for score in scored.scores])
    return scores - config.missing_eos_penalty * (~scored.generated.ended).float()


def _learning_mask(scored: ScoredRollouts, config: AdvantageConfig) -> Any:
    """Return 1.0 for each completion that the loss includes, 0.0 for the others."""
    has_score = scored.values.new_tensor([float(score is not None) for score in scored.scores])
    return has_score * scored.generated.ended.float() if config.mask_truncated_completions else has_score


def _rollout_metrics(scored: ScoredRollouts, kl: Any) -> dict[str, float]:
    generated, mask = scored.generated, scored.generated.mask
    lengths = mask.sum(dim=1)
    metrics = {
        "entropy": float(masked_mean(scored.entropies, mask)),
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float((~generated.ended).float().mean()),
        "values/mean": float(masked_mean(scored.values, mask)),
        **_reward_metrics([score for score in scored.scores if score is not None]),
    }
    if scored.ref_logprobs is not None:
        metrics["kl"] = float(masked_mean(kl, mask))
        metrics["kl_per_completion"] = float(kl.sum(dim=1).mean())
    return metrics


def _reward_metrics(scores: list[float]) -> dict[str, float]:
    if not scores:
        return {}
    mean = sum(scores) / len(scores)
    deviation = (sum((score - mean) ** 2 for score in scores) / len(scores)) ** 0.5
    return {
        "reward": mean,
        "reward_std": deviation,
        "frac_reward_zero_std": float(min(scores) == max(scores)),
    }

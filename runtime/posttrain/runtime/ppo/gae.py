"""Token rewards, KL estimators and generalized advantage estimation (GAE).

Tensors have one row per completion and one column per token; `mask` is 1.0 on the tokens of the completion.
No function here propagates gradients.
"""

from collections.abc import Callable
from typing import Any, Literal

KlEstimator = Literal["k1", "k2", "k3"]
# Log-probability differences are clamped to this range to avoid overflow of the exponential.
_MAX_LOG_RATIO = 20.0
# The relative error of the KL divergence is clipped to this value in an update of the KL coefficient.
_MAX_KL_ERROR = 0.2
_WHITEN_EPSILON = 1e-8


def token_kl(policy: Any, reference: Any, estimator: KlEstimator) -> Any:
    """Estimate the KL divergence of the policy from the reference at each sampled token.

    k1 is unbiased but can be negative. k2 is non-negative but biased, except near zero. k3 is unbiased and
    non-negative.
    """
    log_ratio = policy - reference
    match estimator:
        case "k1":
            return log_ratio
        case "k2":
            return log_ratio.square() / 2
        case "k3":
            inverse = (-log_ratio).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
            return inverse.expm1() - inverse


def token_rewards(scores: Any, kl: Any, kl_coef: float, mask: Any) -> Any:
    """Return token rewards: the completion's score at its last token, minus the KL penalty of each token."""
    last = (mask.cumsum(dim=1) * mask).argmax(dim=1, keepdim=True)
    rewards = -kl_coef * kl * mask
    return rewards.scatter_add(1, last, scores.unsqueeze(1).to(rewards.dtype)) * mask


def gae_advantages(rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> tuple[Any, Any]:
    """Return generalized advantage estimates, and the returns that are the targets of the value model.

    Tokens outside the mask are skipped, wherever they are: the successor of a token is the next token in the
    mask.
    """
    advantages = values.new_zeros(values.shape)
    following, gathered = values.new_zeros(len(values)), values.new_zeros(len(values))
    for token in reversed(range(values.shape[1])):
        counts = mask[:, token]
        delta = rewards[:, token] + gamma * following - values[:, token]
        gathered = counts * (delta + gamma * lam * gathered) + (1 - counts) * gathered
        following = counts * values[:, token] + (1 - counts) * following
        advantages[:, token] = counts * gathered
    return advantages, (advantages + values) * mask


def masked_mean(values: Any, mask: Any) -> Any:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def masked_whiten(values: Any, mask: Any, total: Callable[[Any], Any] = lambda part: part) -> Any:
    """Normalize values to mean 0 and variance 1 over the mask. `total` sums over all processes."""
    count = total(mask.sum())
    mean = total((values * mask).sum()) / count.clamp(min=1)
    centered = (values - mean) * mask
    variance = total(centered.square().sum()) / (count - 1).clamp(min=1)
    return centered * (variance + _WHITEN_EPSILON).rsqrt()


def explained_variance(values: Any, returns: Any, mask: Any) -> float:
    """Return the share of the returns' variance that the values explain: 1 is all of it, 0 is none."""
    centered = (returns - masked_mean(returns, mask)) * mask
    error = returns - values
    residual = (error - masked_mean(error, mask)) * mask
    total = float(centered.square().sum())
    return 1.0 - float(residual.square().sum()) / total if total > 0 else 0.0


def adapt_kl_coef(kl_coef: float, kl: float, target: float, completions: int, horizon: int) -> float:
    """Return the KL coefficient after one rollout: higher if `kl` is above `target`, lower if below."""
    error = max(-_MAX_KL_ERROR, min(_MAX_KL_ERROR, kl / target - 1))
    return kl_coef * (1 + error * completions / horizon)

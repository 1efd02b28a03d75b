"""Rewards of tokens, KL estimates and generalised advantage estimation.

Everything is a tensor of one row a completion and one column a token; `mask` is 1.0 on the tokens of the
completion. Nothing here carries a gradient.
"""

from collections.abc import Callable
from typing import Any, Literal

KlEstimator = Literal["k1", "k2", "k3"]
# Beyond this the exponential of a difference of log-probabilities says no more than that it is large.
_MAX_LOG_RATIO = 20.0
# The largest relative error of the KL divergence that one update of its coefficient takes into account.
_MAX_KL_ERROR = 0.2
_WHITEN_EPSILON = 1e-8


def token_kl(policy: Any, reference: Any, estimator: KlEstimator) -> Any:
    """The KL divergence of the policy from the reference as each sampled token shows it.

    k1 is right on average and may be negative; k2 never is, and is right near zero; k3 is both right on
    average and never negative.
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
    """The score of a completion at its last token, less the KL penalty of each token."""
    last = (mask.cumsum(dim=1) * mask).argmax(dim=1, keepdim=True)
    rewards = -kl_coef * kl * mask
    return rewards.scatter_add(1, last, scores.unsqueeze(1).to(rewards.dtype)) * mask


def gae_advantages(rewards: Any, values: Any, mask: Any, gamma: float, lam: float) -> tuple[Any, Any]:
    """Generalised advantage estimates, and the returns that values should have predicted.

    Tokens outside of the mask are passed over, wherever they stand: the token before them is followed by
    the next one that counts.
    """
    found = values.new_zeros(values.shape)
    following, gathered = values.new_zeros(len(values)), values.new_zeros(len(values))
    for token in reversed(range(values.shape[1])):
        counts = mask[:, token]
        delta = rewards[:, token] + gamma * following - values[:, token]
        gathered = counts * (delta + gamma * lam * gathered) + (1 - counts) * gathered
        following = counts * values[:, token] + (1 - counts) * following
        found[:, token] = counts * gathered
    return found, (found + values) * mask


def masked_mean(values: Any, mask: Any) -> Any:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def masked_whiten(values: Any, mask: Any, total: Callable[[Any], Any] = lambda part: part) -> Any:
    """Values with mean zero and variance one over the mask. `total` sums up over all processes."""
    count = total(mask.sum())
    mean = total((values * mask).sum()) / count.clamp(min=1)
    centered = (values - mean) * mask
    variance = total(centered.square().sum()) / (count - 1).clamp(min=1)
    return centered * (variance + _WHITEN_EPSILON).rsqrt()


def explained_variance(values: Any, returns: Any, mask: Any) -> float:
    """How much of the returns' variance the values predicted: 1 is all, 0 is no better than their mean."""
    centered = (returns - masked_mean(returns, mask)) * mask
    error = returns - values
    residual = (error - masked_mean(error, mask)) * mask
    total = float(centered.square().sum())
    return 1.0 - float(residual.square().sum()) / total if total > 0 else 0.0


def adapt_kl_coef(kl_coef: float, kl: float, target: float, completions: int, horizon: int) -> float:
    """The KL coefficient after one set of completions, moved towards where `kl` is `target`."""
    error = max(-_MAX_KL_ERROR, min(_MAX_KL_ERROR, kl / target - 1))
    return kl_coef * (1 + error * completions / horizon)

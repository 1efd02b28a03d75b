"""What the policy has done and what is learnt from it: completions with all that is known of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.ppo.arithmetic import (
    Estimator,
    advantages,
    divergence,
    explained_variance,
    masked_mean,
    token_rewards,
    whitened,
)
from posttrain.runtime.ppo.writing import Written


@dataclass(frozen=True)
class Experience:
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
    def count(self) -> int:
        return self.mask.shape[1]

    def at(self, places: Sequence[int]) -> "Experience":
        """Some of the rows, without columns that are padding in all of them."""
        tokens, attention = self.tokens[places], self.attention[places]
        used = attention.sum(dim=0).nonzero()
        first, end = int(used[0]), int(used[-1]) + 1
        start = self.tokens.shape[1] - self.count
        own = [one[places][:, : end - start] for one in self._by_token()]
        return Experience(tokens[:, first:end], attention[:, first:end], *own)

    def _by_token(self) -> tuple[Any, ...]:
        return self.mask, self.logprobs, self.values, self.advantages, self.returns


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Written completions, as the models and the reward see them."""

    written: Written
    logprobs: Any
    values: Any
    entropies: Any
    # None without a reference.
    reference: Any
    # The reward of each completion; None where it has none.
    scores: list[float | None]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How experience is made of what was judged. `total` sums up over all processes."""

    beta: float
    estimator: Estimator
    gamma: float
    lam: float
    whiten: bool
    skip_cut: bool
    cut_penalty: float
    total: Callable[[Any], Any]


def experience(judged: Judged, terms: Terms) -> tuple[Experience, dict[str, float]]:
    """What is learnt from, and the figures of it."""
    written, mask = judged.written, judged.written.mask
    diverged = mask * 0 if judged.reference is None else _diverged(judged, terms)
    rewards = token_rewards(_scores(judged, terms), diverged, terms.beta, mask)
    found, returns = advantages(rewards, judged.values * mask, mask, terms.gamma, terms.lam)
    learnt = mask * _kept(judged, terms).unsqueeze(1)
    gains = whitened(found, learnt, terms.total) if terms.whiten else found * learnt
    made = Experience(
        written.tokens, written.attention, learnt, judged.logprobs, judged.values, gains, returns
    )
    figures = _figures(judged, diverged)
    return made, figures | {"values/explained": explained_variance(judged.values, returns, learnt)}


def _diverged(judged: Judged, terms: Terms) -> Any:
    return divergence(judged.logprobs, judged.reference, terms.estimator) * judged.written.mask


def _scores(judged: Judged, terms: Terms) -> Any:
    """What each completion is paid. One without a score is paid nothing, and nothing is learnt from it."""
    scores = judged.values.new_tensor([0.0 if score is None else score for score in judged.scores])
    return scores - terms.cut_penalty * (~judged.written.ended).float()


def _kept(judged: Judged, terms: Terms) -> Any:
    """1.0 for each completion that is learnt from."""
    kept = judged.values.new_tensor([float(score is not None) for score in judged.scores])
    return kept * judged.written.ended.float() if terms.skip_cut else kept


def _figures(judged: Judged, diverged: Any) -> dict[str, float]:
    written, mask = judged.written, judged.written.mask
    lengths = mask.sum(dim=1)
    figures = {
        "entropy": float(masked_mean(judged.entropies, mask)),
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float((~written.ended).float().mean()),
        "values/mean": float(masked_mean(judged.values, mask)),
        **_rewards([score for score in judged.scores if score is not None]),
    }
    if judged.reference is not None:
        figures["kl"] = float(masked_mean(diverged, mask))
        figures["kl_of_completion"] = float(diverged.sum(dim=1).mean())
    return figures


def _rewards(scores: list[float]) -> dict[str, float]:
    if not scores:
        return {}
    mean = sum(scores) / len(scores)
    spread = (sum((score - mean) ** 2 for score in scores) / len(scores)) ** 0.5
    return {"reward": mean, "reward_std": spread, "frac_reward_zero_std": float(min(scores) == max(scores))}

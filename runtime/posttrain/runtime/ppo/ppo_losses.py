"""The losses of the policy and of the values, token by token, and what share of them was clipped."""

from typing import Any

# The ratio of two probabilities is held below exp(20): beyond, its gradient is clipped in any case.
_MAX_LOG_RATIO = 20.0


def policy_loss(
    logprobs: Any, old: Any, advantages: Any, cliprange: float, cliprange_high: float
) -> tuple[Any, Any]:
    """The clipped policy loss of each token; and where the ratio was clipped.

    The larger of two losses counts: with the ratio of probabilities as it is, and with it held within
    1 - cliprange .. 1 + cliprange_high. So nothing is gained by moving further than that.
    """
    ratio = (logprobs - old).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    unclipped = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - cliprange, 1 + cliprange_high)
    return unclipped.maximum(clipped), (clipped > unclipped).to(unclipped.dtype)


def value_loss(values: Any, old: Any, returns: Any, cliprange: float) -> tuple[Any, Any]:
    """Half the squared error of each value; and where its way from the old one was clipped."""
    clipped_values = old + (values - old).clamp(-cliprange, cliprange)
    unclipped, clipped = (values - returns).square(), (clipped_values - returns).square()
    return unclipped.maximum(clipped) / 2, (clipped > unclipped).to(unclipped.dtype)

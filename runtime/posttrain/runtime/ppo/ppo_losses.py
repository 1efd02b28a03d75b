"""The clipped losses of the policy and the value model per token, and where clipping took effect."""

from typing import Any

# Clamps the probability ratio to exp(20) to avoid overflow. Such ratios are outside the clipping range
# anyway.
_MAX_LOG_RATIO = 20.0


def policy_loss(
    logprobs: Any, old: Any, advantages: Any, cliprange: float, cliprange_high: float
) -> tuple[Any, Any]:
    """Return the clipped policy loss of each token, and where the ratio was clipped.

    The loss is the larger of two: with the probability ratio, and with the ratio clipped to
    [1 - cliprange, 1 + cliprange_high]. So there is no gradient to move further beyond the clipping range.
    """
    ratio = (logprobs - old).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    unclipped = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - cliprange, 1 + cliprange_high)
    return unclipped.maximum(clipped), (clipped > unclipped).to(unclipped.dtype)


def value_loss(values: Any, old: Any, returns: Any, cliprange: float) -> tuple[Any, Any]:
    """Return half the squared error of each value, and where its change from the old value was clipped."""
    clipped_values = old + (values - old).clamp(-cliprange, cliprange)
    unclipped, clipped = (values - returns).square(), (clipped_values - returns).square()
    return unclipped.maximum(clipped) / 2, (clipped > unclipped).to(unclipped.dtype)

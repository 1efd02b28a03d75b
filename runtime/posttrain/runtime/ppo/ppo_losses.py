"""The losses of the policy and of the values, token by token, and what share of them was clipped."""

from typing import Any

# The ratio of two probabilities is held below exp(20): beyond, its gradient is clipped in any case.
_MAX_LOG_RATIO = 20.0


def policy_loss(logprobs: Any, old: Any, advantages: Any, low: float, high: float) -> tuple[Any, Any]:
    """How much each token speaks against the policy; and where the ratio was clipped.

    The worse of two readings counts: with the ratio of probabilities as it is, and with it held within
    1 - low .. 1 + high. So nothing is gained by moving further than that.
    """
    ratio = (logprobs - old).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    free = -advantages * ratio
    held = -advantages * ratio.clamp(1 - low, 1 + high)
    return free.maximum(held), (held > free).to(free.dtype)


def value_loss(values: Any, old: Any, returns: Any, epsilon: float) -> tuple[Any, Any]:
    """Half the squared error of each value; and where its way from the old one was clipped."""
    held = old + (values - old).clamp(-epsilon, epsilon)
    free, clipped = (values - returns).square(), (held - returns).square()
    return free.maximum(clipped) / 2, (clipped > free).to(free.dtype)

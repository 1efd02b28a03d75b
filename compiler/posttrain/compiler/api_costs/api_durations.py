"""Estimates the time of the calls of endpoints, from assumed speeds of providers and `concurrency`."""

from posttrain.compiler.api_costs.api_calls import ApiCalls
from posttrain.compiler.memory.duration import TimeShare

# Of one request, best and worst. Rate limits and retries are not part of it.
FIRST_TOKEN_SECONDS = (0.5, 2.0)
TOKENS_PER_SECOND = (120.0, 30.0)
ASSUMED_SPEED = (
    f"endpoints generate {TOKENS_PER_SECOND[1]:.0f} to {TOKENS_PER_SECOND[0]:.0f} tokens/s for each request"
    f" after {FIRST_TOKEN_SECONDS[0]:g} to {FIRST_TOKEN_SECONDS[1]:g} s, with all of their `concurrency`"
)


def api_share(calls: ApiCalls) -> TimeShare | None:
    """Return the time of the calls, or None if their number is not known."""
    if calls.items is None:
        return None
    # The calls of one item, such as the turns of a dialogue, wait for each other.
    batch = -(-calls.items // calls.batches)
    rounds = calls.batches * -(-batch // calls.endpoint.concurrency)
    tokens = calls.output.least if calls.calls.least else 0
    least = calls.calls.least * FIRST_TOKEN_SECONDS[0] + tokens / TOKENS_PER_SECOND[0]
    most = calls.calls.most * FIRST_TOKEN_SECONDS[1] + calls.output.most / TOKENS_PER_SECOND[1]
    at_once = min(batch, calls.endpoint.concurrency)
    why = f"{calls.purpose} by {calls.name}, {at_once} at a time"
    return TimeShare("API calls", rounds * least, rounds * most, why)

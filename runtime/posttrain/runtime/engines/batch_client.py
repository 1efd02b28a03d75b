"""Sends many requests to an endpoint concurrently, and reports each reply as it arrives."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue

from posttrain.runtime.engines.circuit_breaker import CircuitBreaker
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.endpoint_client import (
    ENDPOINT_ADVICE,
    REFUSED,
    CompletionRequest,
    EndpointClient,
    RetryPolicy,
)
from posttrain.runtime.errors import StepError

# If the first replies, this many, are all refusals, the endpoint is at fault and not the prompts.
_MAX_REFUSALS = 20
OnReply = Callable[[int, Completion], None]


def complete_many(
    client: EndpointClient, requests: Sequence[CompletionRequest], retry_policy: RetryPolicy
) -> list[Completion]:
    """Complete all requests, in order. Fails fast if nearly all of them fail with the same error."""
    replies: dict[int, Completion] = {}

    def on_reply(place: int, reply: Completion) -> None:
        replies[place] = reply

    complete_each(client, requests, retry_policy, on_reply, lambda: False, CircuitBreaker(len(requests)))
    return [replies[place] for place in range(len(requests))]


def complete_each(
    client: EndpointClient,
    requests: Sequence[CompletionRequest],
    retry_policy: RetryPolicy,
    on_reply: OnReply,
    should_stop: Callable[[], bool],
    breaker: CircuitBreaker | None = None,
) -> bool:
    """Call `on_reply` with the index and the completion of each request. Returns whether all were sent.

    The number of concurrent requests is limited by the endpoint's `concurrency`. After a stop request, no new
    requests start, and replies to requests in flight are still reported.
    """
    stopped = threading.Event()
    replies: Queue[_Reply] = Queue()
    refusals = _RefusalDetector(len(requests))

    def send(place: int) -> None:
        try:
            completion = (
                None if stopped.is_set() else client.complete(requests[place], retry_policy, stopped, breaker)
            )
            replies.put((place, completion))
        except BaseException as error:
            stopped.set()  # the other requests would fail in the same way
            replies.put((place, error))

    with ThreadPoolExecutor(client.max_concurrency, thread_name_prefix="requests") as pool:
        try:
            for place in range(len(requests)):
                pool.submit(send, place)
            for _ in requests:
                place, reply = _next_reply(replies, stopped, should_stop)
                if isinstance(reply, BaseException):
                    raise reply
                if reply is not None:
                    refusals.record(reply)
                    on_reply(place, reply)
        except BaseException:
            stopped.set()  # otherwise the pool sends all remaining requests before it closes
            raise
    return not stopped.is_set()


def _next_reply(
    replies: "Queue[_Reply]", stopped: threading.Event, should_stop: Callable[[], bool]
) -> "_Reply":
    """Wait for the next reply, and poll for a stop request meanwhile."""
    while True:
        if should_stop():
            stopped.set()
        with contextlib.suppress(Empty):
            return replies.get(timeout=0.2)


_Reply = tuple[int, Completion | BaseException | None]


class _RefusalDetector:
    """Distinguishes single refused prompts from an endpoint that refuses every request."""

    def __init__(self, total: int) -> None:
        self._total = min(total, _MAX_REFUSALS)
        self._refused = 0
        self._answered = False

    def record(self, reply: Completion) -> None:
        self._answered = self._answered or reply.finish != REFUSED
        self._refused += reply.finish == REFUSED
        if not self._answered and self._refused >= self._total:
            raise StepError(reply.error or "every request was refused", ENDPOINT_ADVICE)

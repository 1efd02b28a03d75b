"""Asks an endpoint many questions side by side, and hands over each reply as it comes."""

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

# So many of the first replies, and then so many in a row, are enough to know that it is not the prompts.
_MAX_REFUSALS = 20
OnReply = Callable[[int, Completion], None]


def complete_many(
    client: EndpointClient, requests: Sequence[CompletionRequest], retry_policy: RetryPolicy
) -> list[Completion]:
    """A completion for each question, in their order; soon, when nearly all fail for one cause."""
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
    """Tell each reply with the place of its question; whether all questions were asked.

    At most as many requests are under way as the endpoint allows. Asked to stop, it begins no new
    ones, and tells what those bring that are under way.
    """
    stopped = threading.Event()
    replies: Queue[_Reply] = Queue()
    refusals = _RefusalDetector(len(requests))

    def ask(place: int) -> None:
        try:
            completion = (
                None if stopped.is_set() else client.complete(requests[place], retry_policy, stopped, breaker)
            )
            replies.put((place, completion))
        except BaseException as error:
            stopped.set()  # it would end the others too
            replies.put((place, error))

    with ThreadPoolExecutor(client.max_concurrency, thread_name_prefix="asking") as pool:
        try:
            for place in range(len(requests)):
                pool.submit(ask, place)
            for _ in requests:
                place, reply = _next_reply(replies, stopped, should_stop)
                if isinstance(reply, BaseException):
                    raise reply
                if reply is not None:
                    refusals.record(reply)
                    on_reply(place, reply)
        except BaseException:
            stopped.set()  # else the pool would ask all that is left before it closes
            raise
    return not stopped.is_set()


def _next_reply(
    replies: "Queue[_Reply]", stopped: threading.Event, should_stop: Callable[[], bool]
) -> "_Reply":
    """The next reply; meanwhile, look whether somebody wants this to end."""
    while True:
        if should_stop():
            stopped.set()
        with contextlib.suppress(Empty):
            return replies.get(timeout=0.2)


_Reply = tuple[int, Completion | BaseException | None]


class _RefusalDetector:
    """Tells prompts that a server refuses from a server that refuses all."""

    def __init__(self, total: int) -> None:
        self._total = min(total, _MAX_REFUSALS)
        self._refused = 0
        self._answered = False

    def record(self, reply: Completion) -> None:
        self._answered = self._answered or reply.finish != REFUSED
        self._refused += reply.finish == REFUSED
        if not self._answered and self._refused >= self._total:
            raise StepError(reply.error or "every request was refused", ENDPOINT_ADVICE)

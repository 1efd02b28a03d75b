"""Asks a model behind an HTTP interface for one completion, and again when that may help."""

import os
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.engines import providers
from posttrain.runtime.engines.circuit_breaker import CircuitBreaker
from posttrain.runtime.engines.completion_log import Completion, Prompt
from posttrain.runtime.engines.concurrency_limiter import limiter_for
from posttrain.runtime.engines.providers import SamplingParams
from posttrain.runtime.engines.transport import HttpError, HttpRequest, post_json
from posttrain.runtime.errors import StepError

_TRANSIENT_STATUSES = (408, 409, 425, 429, 500, 502, 503, 504, 529)
# Statuses that may be about one prompt, and not about the way to the model.
_PROMPT_ERROR_STATUSES = (400, 413, 422)
_INITIAL_BACKOFF, _MAX_BACKOFF = 0.5, 60.0
_MAX_ERROR_LENGTH = 300
_POLL_SECONDS = 0.5  # seconds after which those who wait look whether there is any use in it
# How a completion ends that the server will not write, whoever asks again.
REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How long and how often to ask for one completion."""

    attempts: int
    # The longest that one request may take, and all of them together.
    request_timeout: float
    total_timeout: float = float("inf")


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    prompt: Prompt
    sampling: SamplingParams


@dataclass(frozen=True, kw_only=True)
class _FailedAttempt:
    """Why a request brought nothing, and how long the server wants to be left alone."""

    error: str
    # The same for all that failed alike; the error where it is not given.
    cause: str = ""
    timed_out: bool = False
    retry_after: float | None = None


_TIMEOUT_REASON = "no reply in time"
_NEVER_SENT = _FailedAttempt(
    error="it was never its turn: the endpoint takes few requests at a time",
    cause=_TIMEOUT_REASON,
    timed_out=True,
)


class EndpointClient:
    """The way to one endpoint: its key, and how many requests it takes at a time."""

    def __init__(self, endpoint: Mapping[str, Any]) -> None:
        self.endpoint = endpoint
        self.max_concurrency: int = endpoint.get("concurrency", 1)
        self._api_key = _read_api_key(endpoint)
        self._limiter = limiter_for(providers.base_url(endpoint), endpoint["model"], self.max_concurrency)

    def complete(
        self,
        request: CompletionRequest,
        retry_policy: RetryPolicy,
        stopped: threading.Event,
        breaker: CircuitBreaker | None = None,
    ) -> Completion | None:
        """A completion, which has no text when none came; None when it was stopped before."""
        call = providers.build_request(self.endpoint, self._api_key, request.prompt, request.sampling)
        breaker = breaker or CircuitBreaker.disabled()
        end = time.monotonic() + retry_policy.total_timeout
        failure, pause = _NEVER_SENT, _INITIAL_BACKOFF
        for attempt in range(retry_policy.attempts):
            began = self._acquire_slot(end, stopped, breaker)
            if began is None:
                break
            found = self._send(call, began, min(retry_policy.request_timeout, end - time.monotonic()))
            if isinstance(found, Completion):
                breaker.record("")
                return found
            failure = found
            breaker.record(failure.cause or failure.error, late=failure.timed_out)
            if attempt + 1 < retry_policy.attempts:
                wait = pause * random.uniform(0.75, 1.25) if found.retry_after is None else found.retry_after
                _backoff(min(wait, _MAX_BACKOFF, end - time.monotonic()), stopped, breaker)
                pause *= 2
        if stopped.is_set():
            return None
        if breaker.open_reason:
            return Completion(None, None, "timeout" if breaker.timed_out else "error", breaker.open_reason)
        if failure is _NEVER_SENT:
            breaker.record(_TIMEOUT_REASON, late=True)
        return _failed_completion(failure, retry_policy, late=failure.timed_out or time.monotonic() >= end)

    def _acquire_slot(self, end: float, stopped: threading.Event, breaker: CircuitBreaker) -> float | None:
        """When the limiter let a request pass; None when there is no time left for one, or no use in it."""
        while not stopped.is_set() and not breaker.open_reason and (left := end - time.monotonic()) > 0:
            began = self._limiter.acquire(min(left, _POLL_SECONDS))
            if began is not None:
                return began
        return None

    def _send(self, call: HttpRequest, began: float, seconds: float) -> Completion | _FailedAttempt:
        """Send one request, and tell the limiter how it went."""
        fine = False
        try:
            found = providers.parse_completion(self.endpoint, post_json(call, max(seconds, 0.001)))
            fine = True
            return found
        except HttpError as refused:
            fine = refused.status not in _TRANSIENT_STATUSES
            return self._classify_error(refused)
        except TimeoutError:
            return _FailedAttempt(error=_TIMEOUT_REASON, timed_out=True)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
            return _FailedAttempt(error=f"{type(broken).__name__}: {broken}")
        finally:
            self._limiter.release(began, fine=fine)

    def _classify_error(self, refused: HttpError) -> Completion | _FailedAttempt:
        """What a refused request amounts to. A StepError when every other one will be refused too."""
        said = refused.message.replace(self._api_key, "***") if self._api_key else refused.message
        message = f"{self.endpoint['provider']} answers {refused.status}: {said[:_MAX_ERROR_LENGTH]}"
        if refused.status in _PROMPT_ERROR_STATUSES:
            return Completion(None, None, REFUSED, message)
        if refused.status not in _TRANSIENT_STATUSES:
            raise StepError(message, ENDPOINT_ADVICE)
        if refused.retry_after is not None:
            self._limiter.pause(min(refused.retry_after, _MAX_BACKOFF))
        cause = f"{self.endpoint['provider']} answers {refused.status}"
        return _FailedAttempt(error=message, cause=cause, retry_after=refused.retry_after)


def _backoff(seconds: float, stopped: threading.Event, breaker: CircuitBreaker) -> None:
    """Wait before the next attempt, as long as there is to be one."""
    end = time.monotonic() + seconds
    while not stopped.is_set() and not breaker.open_reason and (left := end - time.monotonic()) > 0:
        stopped.wait(min(left, _POLL_SECONDS))


ENDPOINT_ADVICE = "look at the endpoint's base_url, model and api_key"


def _failed_completion(failure: _FailedAttempt, retry_policy: RetryPolicy, *, late: bool) -> Completion:
    if not late:
        return Completion(None, None, "error", failure.error)
    seconds = min(retry_policy.total_timeout, retry_policy.request_timeout)
    last = f"; last: {failure.error}" if failure.error and not failure.timed_out else ""
    if failure is _NEVER_SENT:
        last = f"; {failure.error}"
    return Completion(None, None, "timeout", f"no reply within {seconds:g} s{last}")


def _read_api_key(endpoint: Mapping[str, Any]) -> str | None:
    name = endpoint.get("api_key")
    if name is None:
        return None
    value = os.environ.get(name, "").strip()
    if not value:
        raise StepError(f"the environment variable {name} is not set", "set it to the endpoint's key")
    if not (value.isascii() and value.isprintable()):
        raise StepError(f"the environment variable {name} holds no key", "a key is one line of plain letters")
    return value

"""A client for one HTTP endpoint: requests a completion, and retries transient failures."""

import os
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines import providers
from posttrain.runtime.engines.circuit_breaker import CircuitBreaker
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.concurrency_limiter import limiter_for
from posttrain.runtime.engines.providers import SamplingParams
from posttrain.runtime.engines.transport import HttpError, HttpRequest, post_json
from posttrain.runtime.engines.usage_log import USAGE_FILE, UsageLog
from posttrain.runtime.errors import StepError
from posttrain.spec.step_params.generation_params import EndpointAccess, EndpointIdentity

_TRANSIENT_STATUSES = (408, 409, 425, 429, 500, 502, 503, 504, 529)
# Statuses that may concern a single prompt rather than the endpoint.
_PROMPT_ERROR_STATUSES = (400, 413, 422)
_INITIAL_BACKOFF, _MAX_BACKOFF = 0.5, 60.0
_MAX_ERROR_LENGTH = 300
_POLL_SECONDS = 0.5  # interval at which waiting requests check for a stop and an open breaker
# The finish reason of a request that the server rejects; it is not retried.
REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The attempts and the time limits of one completion."""

    attempts: int
    # Time limits of one attempt and of all attempts together, in seconds.
    request_timeout: float
    total_timeout: float = float("inf")


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    prompt: Prompt
    sampling: SamplingParams


@dataclass(frozen=True, kw_only=True)
class _FailedAttempt:
    """Why an attempt failed, and the wait that the server requests."""

    error: str
    # Groups equal failures for the circuit breaker. By default, the error.
    cause: str = ""
    timed_out: bool = False
    retry_after: float | None = None


_TIMEOUT_REASON = "request timed out"
_NEVER_SENT = _FailedAttempt(
    error="never sent: the endpoint's concurrency limit was reached",
    cause=_TIMEOUT_REASON,
    timed_out=True,
)


def connect_endpoint(
    name: str, identity: EndpointIdentity, access: EndpointAccess | None, record: Path | None = None
) -> Mapping[str, Any]:
    """An endpoint of a plan with its connection settings, as clients use it.

    `record` is the folder in which the tokens of each request are logged.
    """
    usage_log = None if record is None else UsageLog(record / USAGE_FILE, name)
    return {**dict(identity), **(dict(access) if access else {}), "usage_log": usage_log}


class EndpointClient:
    """A client with the API key and the concurrency limit of one endpoint."""

    def __init__(self, endpoint: Mapping[str, Any]) -> None:
        self.endpoint = endpoint
        self.max_concurrency: int = endpoint.get("concurrency", 1)
        self._api_key = read_api_key(endpoint, os.environ)
        self._limiter = limiter_for(providers.base_url(endpoint), endpoint["model"], self.max_concurrency)

    def complete(
        self,
        request: CompletionRequest,
        retry_policy: RetryPolicy,
        stopped: threading.Event,
        breaker: CircuitBreaker | None = None,
    ) -> Completion | None:
        """Request a completion. Its text is None if all attempts fail. Returns None after a stop."""
        call = providers.build_request(self.endpoint, self._api_key, request.prompt, request.sampling)
        breaker = breaker or CircuitBreaker.disabled()
        end = time.monotonic() + retry_policy.total_timeout
        failure, pause = _NEVER_SENT, _INITIAL_BACKOFF
        for attempt in range(retry_policy.attempts):
            began = self._acquire_slot(end, stopped, breaker)
            if began is None:
                break
            outcome = self._send(call, began, min(retry_policy.request_timeout, end - time.monotonic()))
            if isinstance(outcome, Completion):
                breaker.record("")
                return outcome
            failure = outcome
            breaker.record(failure.cause or failure.error, late=failure.timed_out)
            if attempt + 1 < retry_policy.attempts:
                jittered = pause * random.uniform(0.75, 1.25)
                wait = jittered if failure.retry_after is None else failure.retry_after
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
        """Wait for a slot. Returns its time, or None after the deadline, a stop, or an open breaker."""
        while not stopped.is_set() and not breaker.open_reason and (left := end - time.monotonic()) > 0:
            began = self._limiter.acquire(min(left, _POLL_SECONDS))
            if began is not None:
                return began
        return None

    def _send(self, call: HttpRequest, began: float, seconds: float) -> Completion | _FailedAttempt:
        """Send one request, and report the outcome to the limiter."""
        fine = False
        try:
            answer = post_json(call, max(seconds, 0.001))
            self._log_usage(answer)  # a response that cannot be parsed is billed as well
            completion = providers.parse_completion(self.endpoint, answer)
            fine = True
            return completion
        except HttpError as error:
            fine = error.status not in _TRANSIENT_STATUSES
            return self._classify_error(error)
        except TimeoutError:
            return _FailedAttempt(error=_TIMEOUT_REASON, timed_out=True)
        except OSError as error:
            return _FailedAttempt(error=self._mask(str(error))[:_MAX_ERROR_LENGTH])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            text = self._mask(f"{type(error).__name__}: {error}")
            return _FailedAttempt(error=text[:_MAX_ERROR_LENGTH])
        finally:
            self._limiter.release(began, fine=fine)

    def _log_usage(self, answer: Any) -> None:
        log: UsageLog | None = self.endpoint.get("usage_log")
        if log is not None:
            log.add(providers.parse_usage(self.endpoint, answer))

    def _mask(self, text: str) -> str:
        """Remove the API key, which a server can repeat in its response."""
        return text.replace(self._api_key, "***") if self._api_key else text

    def _classify_error(self, error: HttpError) -> Completion | _FailedAttempt:
        """Convert an HTTP error. Raises StepError if every other request would fail too."""
        cause = f"{self.endpoint['provider']} returned status {error.status}"
        message = f"{cause}: {self._mask(error.message)[:_MAX_ERROR_LENGTH]}"
        if error.status in _PROMPT_ERROR_STATUSES:
            return Completion(None, None, REFUSED, message)
        if error.status not in _TRANSIENT_STATUSES:
            raise StepError(message, ENDPOINT_ADVICE)
        if error.retry_after is not None:
            self._limiter.pause(min(error.retry_after, _MAX_BACKOFF))
        return _FailedAttempt(error=message, cause=cause, retry_after=error.retry_after)


def _backoff(seconds: float, stopped: threading.Event, breaker: CircuitBreaker) -> None:
    """Wait before the next attempt. Returns early after a stop or if the breaker opens."""
    end = time.monotonic() + seconds
    while not stopped.is_set() and not breaker.open_reason and (left := end - time.monotonic()) > 0:
        stopped.wait(min(left, _POLL_SECONDS))


ENDPOINT_ADVICE = "check the endpoint's base_url, model and api_key"


def _failed_completion(failure: _FailedAttempt, retry_policy: RetryPolicy, *, late: bool) -> Completion:
    if not late:
        return Completion(None, None, "error", failure.error)
    seconds = min(retry_policy.total_timeout, retry_policy.request_timeout)
    last = f"; last error: {failure.error}" if failure.error and not failure.timed_out else ""
    if failure is _NEVER_SENT:
        last = f"; {failure.error}"
    return Completion(None, None, "timeout", f"no reply within {seconds:g} s{last}")


def read_api_key(endpoint: Mapping[str, Any], variables: Mapping[str, str]) -> str | None:
    """The API key in these environment variables; None for an endpoint without one. Raises StepError."""
    name = endpoint.get("api_key")
    if name is None:
        return None
    value = variables.get(name, "").strip()
    if not value:
        raise StepError(f"the environment variable {name} is not set", "set it to the endpoint's API key")
    if not (value.isascii() and value.isprintable()):
        message = f"the environment variable {name} does not contain a valid API key"
        raise StepError(message, "an API key is one line of printable ASCII characters")
    return value

"""Generates with an HTTP endpoint. Every reply is logged as it arrives."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.engines.batch_client import complete_each
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.endpoint_client import CompletionRequest, EndpointClient, RetryPolicy
from posttrain.runtime.engines.engine_protocol import ENDPOINT_TEMPLATE, GenerationRequest
from posttrain.runtime.engines.providers import SamplingParams
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.spec.generation_config import SAMPLING_FIELDS
from posttrain.spec.keys import digest

# The step ends after this many failed requests in a row.
_MAX_CONSECUTIVE_FAILURES = 20


class HttpGenerator:
    chat_template = ENDPOINT_TEMPLATE

    def __init__(self, endpoint: Mapping[str, Any]) -> None:
        self._endpoint = endpoint
        self._client = EndpointClient(endpoint)

    def generate(self, request: GenerationRequest) -> list[list[Completion]]:
        log, missing = request.log, request.log.missing()
        # If the log has replies, the endpoint works, and a few failures say little about it.
        failures = _ConsecutiveFailures(
            _MAX_CONSECUTIVE_FAILURES if log.count else min(_MAX_CONSECUTIVE_FAILURES, len(missing))
        )
        requests = [
            CompletionRequest(prompt=request.prompts[place], sampling=sampling_params(request, place, draw))
            for place, draw in missing
        ]

        def on_reply(number: int, reply: Completion) -> None:
            log.add(*missing[number], reply)
            request.progress(log.count, log.total)
            failures.record(reply)

        retry_policy = RetryPolicy(
            attempts=self._endpoint["max_retries"] + 1, request_timeout=self._endpoint["timeout_seconds"]
        )
        request.progress(log.count, log.total)
        if not complete_each(self._client, requests, retry_policy, on_reply, lambda: request.stop.requested):
            raise Interrupted
        return log.all()

    def close(self) -> None:
        return


def sampling_params(request: GenerationRequest, place: int, draw: int) -> SamplingParams:
    sampling = request.sampling
    left_to_server = sampling.model_defaults
    sampled = sampling.temperature > 0 or "temperature" in left_to_server
    return SamplingParams(
        **{name: None if name in left_to_server else getattr(sampling, name) for name in SAMPLING_FIELDS},
        max_tokens=sampling.max_tokens,
        # A server that supports seeds returns the same completion for the same request.
        seed=int(digest([request.seed, request.log.prompt_id(place), draw])[:7], 16) if sampled else None,
    )


class _ConsecutiveFailures:
    """Ends the step if the endpoint is down. Earlier replies are in the log."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    def record(self, reply: Completion) -> None:
        failed = reply.finish in ("error", "timeout")
        self._count = self._count + 1 if failed else 0
        if failed and self._count >= self._limit:
            message = f"{self._count} requests in a row failed; last error: {reply.error}"
            advice = "check that the endpoint is up, then run again: earlier replies are kept"
            raise StepError(message, advice, retriable=True)

"""Generates with a model behind an HTTP interface: every reply is kept as it comes."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.engines.batch_client import complete_each
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.endpoint_client import CompletionRequest, EndpointClient, RetryPolicy
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.providers import SamplingParams
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Engine
from posttrain.spec.keys import digest

EXTENSION = Engine(
    name="http",
    summary="A model behind an HTTP interface, in the form of OpenAI, Anthropic or Gemini.",
)
# So many requests in a row without a reply are no accident.
_MAX_CONSECUTIVE_FAILURES = 20


def run(context: StepContext, subject: Mapping[str, Any]) -> "HttpGenerator":
    name = subject["name"]
    return HttpGenerator({**subject["endpoint"], **context.params["access"][name]})


class HttpGenerator:
    chat_template = "the endpoint's own"

    def __init__(self, endpoint: Mapping[str, Any]) -> None:
        self._endpoint = endpoint
        self._client = EndpointClient(endpoint)

    def generate(self, order: GenerationRequest) -> list[list[Completion]]:
        kept, missing = order.log, order.log.missing()
        # With some replies at hand the endpoint is there, and a few that fail are a matter of their own.
        failures = _ConsecutiveFailures(
            _MAX_CONSECUTIVE_FAILURES if kept.count else min(_MAX_CONSECUTIVE_FAILURES, len(missing))
        )
        questions = [
            CompletionRequest(prompt=order.prompts[place], sampling=_sampling_params(order, place, draw))
            for place, draw in missing
        ]

        def told(number: int, reply: Completion) -> None:
            kept.add(*missing[number], reply)
            order.progress(kept.count, kept.total)
            failures.record(reply)

        patience = RetryPolicy(
            attempts=self._endpoint["max_retries"] + 1, request_timeout=self._endpoint["timeout_seconds"]
        )
        order.progress(kept.count, kept.total)
        if not complete_each(self._client, questions, patience, told, lambda: order.stop.requested):
            raise Interrupted
        return kept.all()

    def close(self) -> None:
        return


def _sampling_params(order: GenerationRequest, place: int, draw: int) -> SamplingParams:
    sampling = order.sampling
    drawn = sampling["temperature"] > 0
    return SamplingParams(
        temperature=sampling["temperature"],
        top_p=sampling["top_p"],
        max_tokens=sampling["max_tokens"],
        # Servers that heed it give the same completion for the same request.
        seed=int(digest([order.seed, order.log.prompt_id(place), draw])[:7], 16) if drawn else None,
    )


class _ConsecutiveFailures:
    """Ends the step when the endpoint is gone: what came before is kept."""

    def __init__(self, enough: int) -> None:
        self._limit = enough
        self._count = 0

    def record(self, reply: Completion) -> None:
        lost = reply.finish in ("error", "timeout")
        self._count = self._count + 1 if lost else 0
        if lost and self._count >= self._limit:
            message = f"{self._count} requests in a row had no reply; the last: {reply.error}"
            advice = "see whether the endpoint is up and run again: what came before is kept"
            raise StepError(message, advice, retriable=True)

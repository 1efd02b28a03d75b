"""The tokens of requests are read from the responses of each provider, and logged for the report."""

from pathlib import Path
from typing import Any

import pytest

from posttrain.runtime.engines.endpoint_client import connect_endpoint
from posttrain.runtime.engines.providers import TokenUsage, parse_usage
from posttrain.runtime.engines.usage_log import EndpointUsage, UsageLog, read_usage
from posttrain.spec.step_params.generation_params import EndpointIdentity

ANSWERS: dict[str, Any] = {
    "openai": {"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}},
    "openrouter": {"usage": {"prompt_tokens": 12, "completion_tokens": 5}},
    "anthropic": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 8, "output_tokens": 5}},
    "gemini": {"usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}},
}


@pytest.mark.parametrize("provider", ANSWERS)
def test_the_tokens_of_a_provider_are_read(provider: str) -> None:
    assert parse_usage({"provider": provider}, ANSWERS[provider]) == TokenUsage(
        input_tokens=12, output_tokens=5
    )


@pytest.mark.parametrize("answer", [None, [], {}, {"usage": None}, {"usage": {"prompt_tokens": "many"}}])
def test_a_response_without_counts_has_no_usage(answer: Any) -> None:
    assert parse_usage({"provider": "openai"}, answer) is None


def test_responses_add_up_for_each_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "api_usage.jsonl"
    for _ in range(2):  # two attempts of a step
        log = UsageLog(path, "judge")
        log.add(TokenUsage(input_tokens=10, output_tokens=3))
        log.add(None)
    UsageLog(path, "writer").add(TokenUsage(input_tokens=1, output_tokens=1))
    with path.open("a") as file:
        file.write('{"endpoint": "judge", "inp')  # killed in the middle of a line
    found = read_usage(path)
    assert found["judge"] == EndpointUsage(requests=4, input_tokens=20, output_tokens=6, uncounted=2)
    assert found["writer"].requests == 1
    assert read_usage(tmp_path / "missing") == {}


def test_an_endpoint_outside_of_a_step_logs_nothing() -> None:
    identity = EndpointIdentity(provider="openai", model="m", base_url=None)
    assert connect_endpoint("judge", identity, None)["usage_log"] is None

"""Builds the requests and parses the responses of each provider's API."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.chat_prompts import ChatPrompt, Prompt, prompt_turns
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.transport import HttpRequest
from posttrain.runtime.errors import StepError
from posttrain.spec.messages import Message

_URLS = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}
# The providers' finish reasons, mapped to those of `Completion`.
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "STOP": "stop",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
}
Endpoint = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """The sampling parameters of one completion. None leaves a parameter to the server's default."""

    temperature: float | None
    max_tokens: int
    top_p: float | None = 1.0
    top_k: int | None = 0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    seed: int | None = None


def build_request(
    endpoint: Endpoint, key: str | None, prompt: Prompt, sampling: SamplingParams
) -> HttpRequest:
    """Build the request for one completion. A null in the endpoint's `extra_body` removes a field."""
    request = _REQUEST_BUILDERS[endpoint["provider"]](endpoint, key, prompt, sampling)
    body = {**request.body, **endpoint.get("extra_body", {})}
    body = {name: value for name, value in body.items() if value is not None}
    return HttpRequest(url=request.url, headers=request.headers, body=body)


def parse_completion(endpoint: Endpoint, answer: Any) -> Completion:
    """Parse the completion in a response. Raises LookupError or TypeError if it is malformed."""
    match endpoint["provider"]:
        case "anthropic":
            return _parse_anthropic(answer)
        case "gemini":
            return _parse_gemini(answer)
        case _:
            return _parse_openai(answer)


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    """The tokens of one request, as the provider counts and bills them."""

    input_tokens: int
    output_tokens: int


def parse_usage(endpoint: Endpoint, answer: Any) -> TokenUsage | None:
    """Parse the token counts in a response, or return None if it has none."""
    usage = answer.get("usage") or answer.get("usageMetadata") if isinstance(answer, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = {
        name: _sum_counts(usage, fields) for name, fields in _USAGE_FIELDS[endpoint["provider"]].items()
    }
    return TokenUsage(**counts) if any(counts.values()) else None


def _sum_counts(usage: Mapping[str, Any], fields: tuple[str, ...]) -> int:
    return sum(value for name in fields if isinstance(value := usage.get(name), int))


_OPENAI_USAGE = {"input_tokens": ("prompt_tokens",), "output_tokens": ("completion_tokens",)}
# The fields of a response with billed tokens. Anthropic reports cached input apart, Gemini its thoughts.
_USAGE_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "openai": _OPENAI_USAGE,
    "openrouter": _OPENAI_USAGE,
    "vllm": _OPENAI_USAGE,
    "anthropic": {
        "input_tokens": ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        "output_tokens": ("output_tokens",),
    },
    "gemini": {
        "input_tokens": ("promptTokenCount",),
        "output_tokens": ("candidatesTokenCount", "thoughtsTokenCount"),
    },
}


def base_url(endpoint: Endpoint) -> str:
    url = endpoint.get("base_url") or _URLS.get(endpoint["provider"])
    if not url:
        raise StepError(
            f"an endpoint with provider {endpoint['provider']} needs a base_url",
            "add `base_url` to the endpoint",
        )
    if not url.startswith(("https://", "http://")):
        raise StepError(f"`{url}` is not an HTTP URL", "write the endpoint's base_url as https://...")
    return url.rstrip("/")


def model_query(endpoint: Endpoint, key: str | None) -> tuple[str, dict[str, str]]:
    """URL and headers of a free request about the model: its own page, or the list of all models."""
    base, model = base_url(endpoint), endpoint["model"]
    match endpoint["provider"]:
        case "anthropic":
            return f"{base}/models/{model}", _anthropic_headers(key)
        case "gemini":
            return f"{base}/models/{model}", _gemini_headers(key)
        case "openai" if not endpoint.get("base_url"):
            return f"{base}/models/{model}", _openai_headers(key)
        case _:
            return f"{base}/models", _openai_headers(key)


def listed_models(answer: Any) -> list[str] | None:
    """The names in a list of models; None if the response is not a list."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        return None
    ids = [one.get("id") for one in data if isinstance(one, dict)]
    return [id for id in ids if isinstance(id, str)]


def _openai_headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _anthropic_headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}


def _gemini_headers(key: str | None) -> dict[str, str]:
    return {"x-goog-api-key": key} if key else {}


def _openai_request(
    endpoint: Endpoint, key: str | None, prompt: Prompt, sampling: SamplingParams
) -> HttpRequest:
    # OpenAI requires `max_completion_tokens`. Compatible servers may only know the older name.
    is_openai = (
        endpoint["provider"] == "openai" and not endpoint.get("base_url") and not isinstance(prompt, str)
    )
    prompt_field = {"prompt": prompt} if isinstance(prompt, str) else _openai_chat(endpoint, prompt)
    return HttpRequest(
        url=f"{base_url(endpoint)}/{'completions' if isinstance(prompt, str) else 'chat/completions'}",
        headers=_openai_headers(key),
        body={
            "model": endpoint["model"],
            **prompt_field,
            "temperature": sampling.temperature,
            **_openai_filters(endpoint, sampling),
            "max_completion_tokens" if is_openai else "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
        },
    )


def _openai_chat(endpoint: Endpoint, prompt: list[Message] | ChatPrompt) -> dict[str, Any]:
    """The conversation with its tools. Arguments of calls are JSON text in this API."""
    fields: dict[str, Any] = {"messages": [_openai_turn(turn) for turn in prompt_turns(prompt)]}
    if isinstance(prompt, ChatPrompt):
        fields["tools"] = prompt.tools
        if prompt.template_kwargs and endpoint["provider"] != "vllm":
            raise _unsupported(endpoint, "arguments of the chat template", "chat_template_kwargs")
        fields["chat_template_kwargs"] = dict(prompt.template_kwargs) or None
    return fields


def _openai_turn(turn: Message) -> Message:
    if "tool_calls" not in turn:
        return turn
    return {**turn, "tool_calls": [_openai_call(call) for call in turn["tool_calls"]]}


def _openai_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {**function, "arguments": arguments}}


def _unsupported(endpoint: Endpoint, what: str, name: str) -> StepError:
    return StepError(
        f"the rows or the stage have {what}, which requests to {endpoint['provider']} do not have here",
        f"remove `{name}` with the data step `select`, or use a local model or an OpenAI-compatible endpoint",
    )


def _openai_filters(endpoint: Endpoint, sampling: SamplingParams) -> dict[str, Any]:
    """The parameters that change the distribution of the tokens. OpenAI accepts only `top_p`."""
    filters = {
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
    }
    if endpoint["provider"] == "vllm":
        return filters  # all of them: vLLM's server fills the others from the model's generation_config.json
    neutral = {"top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}
    return {name: value for name, value in filters.items() if value != neutral[name]}


def _anthropic_request(
    endpoint: Endpoint, key: str | None, prompt: Prompt, sampling: SamplingParams
) -> HttpRequest:
    system, turns = _split_system_prompt(endpoint, prompt)
    return HttpRequest(
        url=f"{base_url(endpoint)}/messages",
        headers=_anthropic_headers(key),
        body={
            "model": endpoint["model"],
            "system": system or None,
            "messages": turns,
            "temperature": sampling.temperature,
            "top_p": None if sampling.top_p == 1 else sampling.top_p,
            "top_k": sampling.top_k or None,
            "max_tokens": sampling.max_tokens,
        },
    )


def _gemini_request(
    endpoint: Endpoint, key: str | None, prompt: Prompt, sampling: SamplingParams
) -> HttpRequest:
    system, turns = _split_system_prompt(endpoint, prompt)
    roles = {"assistant": "model"}
    return HttpRequest(
        url=f"{base_url(endpoint)}/models/{endpoint['model']}:generateContent",
        headers=_gemini_headers(key),
        body={
            "systemInstruction": {"parts": [{"text": system}]} if system else None,
            "contents": [
                {"role": roles.get(turn["role"], "user"), "parts": [{"text": turn["content"]}]}
                for turn in turns
            ],
            "generationConfig": {
                "maxOutputTokens": sampling.max_tokens,
                **({} if sampling.temperature is None else {"temperature": sampling.temperature}),
                **({"topP": sampling.top_p} if sampling.top_p not in (None, 1) else {}),
                **({"topK": sampling.top_k} if sampling.top_k else {}),
                **({"seed": sampling.seed} if sampling.seed is not None else {}),
            },
        },
    )


_REQUEST_BUILDERS: dict[str, Callable[[Endpoint, str | None, Prompt, SamplingParams], HttpRequest]] = {
    "openai": _openai_request,
    "openrouter": _openai_request,
    "vllm": _openai_request,
    "anthropic": _anthropic_request,
    "gemini": _gemini_request,
}


def _split_system_prompt(endpoint: Endpoint, prompt: Prompt) -> tuple[str, list[dict[str, str]]]:
    """Split the system prompt from the messages, for APIs that accept only conversations."""
    if isinstance(prompt, str):
        message = f"{endpoint['provider']} accepts only conversations, and the stage sends plain text"
        raise StepError(message, "use `prompts: chat`")
    if isinstance(prompt, ChatPrompt):
        raise _unsupported(endpoint, "tools or arguments of the chat template", "tools")
    other = next((name for turn in prompt for name in turn if name not in ("role", "content")), None)
    if other is not None:
        raise _unsupported(endpoint, f"turns with `{other}`", "prompt")
    system = "\n\n".join(turn["content"] for turn in prompt if turn["role"] == "system")
    return system, [turn for turn in prompt if turn["role"] != "system"]


def _parse_openai(answer: Any) -> Completion:
    choice = answer["choices"][0]
    text = _openai_text(choice["message"]) if "message" in choice else choice["text"]
    tokens = (answer.get("usage") or {}).get("completion_tokens")
    return _build_completion(text or "", choice.get("finish_reason"), tokens)


def _openai_text(message: Mapping[str, Any]) -> Any:
    """The text of a message. Calls of tools, which servers parse out of the text, follow it in tags."""
    calls = message.get("tool_calls") or ()
    functions = [call["function"] for call in calls]
    tagged = [
        f'<tool_call>\n{{"name": {json.dumps(one["name"])}, "arguments": {one["arguments"]}}}\n</tool_call>'
        for one in functions
    ]
    return (
        "\n".join([text for text in (message["content"],) if text] + tagged) if tagged else message["content"]
    )


def _parse_anthropic(answer: Any) -> Completion:
    text = "".join(part["text"] for part in answer["content"] if part["type"] == "text")
    return _build_completion(
        text, answer.get("stop_reason"), (answer.get("usage") or {}).get("output_tokens")
    )


def _parse_gemini(answer: Any) -> Completion:
    """Parse a Gemini response, which may have no candidate, or one without content, and a reason."""
    blocked = (answer.get("promptFeedback") or {}).get("blockReason")
    if blocked and not answer.get("candidates"):
        return _build_completion("", str(blocked), None)
    candidate = answer["candidates"][0]
    finish = candidate.get("finishReason")
    parts = (candidate.get("content") or {}).get("parts")
    if parts is None and finish in (None, "STOP"):
        raise LookupError("the candidate has no parts")
    text = "".join(part.get("text", "") for part in parts or () if not part.get("thought"))
    return _build_completion(text, finish, (answer.get("usageMetadata") or {}).get("candidatesTokenCount"))


def _build_completion(text: Any, finish: Any, tokens: Any) -> Completion:
    if not isinstance(text, str):
        raise TypeError(f"the text has the type {type(text).__name__}")
    reason = str(finish or "stop")
    return Completion(
        text, tokens if isinstance(tokens, int) else None, _FINISH_REASONS.get(reason, reason.lower())
    )

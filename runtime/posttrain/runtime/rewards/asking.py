"""Asks a model behind an HTTP interface, many times at once, and again when that may help."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.faults import StepFault

_PASSING = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_LONGEST_PAUSE = 30.0
_MOST_BYTES = 8 * 1024 * 1024
_URLS = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}


@dataclass(frozen=True, kw_only=True)
class Question:
    system: str
    user: str


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How to ask: sampling, patience."""

    temperature: float
    max_tokens: int
    timeout_seconds: float
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The text of a reply; or the error, `late` when time ran out."""

    text: str | None = None
    error: str | None = None
    late: bool = False


@dataclass(frozen=True, kw_only=True)
class _Call:
    url: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


def ask_many(endpoint: Mapping[str, Any], questions: Sequence[Question], manner: Manner) -> list[Reply]:
    """A reply to each question; at most as many are under way as the endpoint allows."""
    key = _key(endpoint)

    def ask(question: Question) -> Reply:
        return _ask(endpoint, key, question, manner)

    with ThreadPoolExecutor(endpoint.get("concurrency", 1), thread_name_prefix="asking") as pool:
        return list(pool.map(ask, questions))


def _key(endpoint: Mapping[str, Any]) -> str | None:
    name = endpoint.get("key")
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        raise StepFault(f"the environment variable {name} is not set", "set it to the endpoint's key")
    return value


def _ask(endpoint: Mapping[str, Any], key: str | None, question: Question, manner: Manner) -> Reply:
    """Ask until there is a reply, the time is over, or asking again cannot help."""
    from urllib.error import HTTPError

    call = _FORMS[endpoint["provider"]](endpoint, key, question, manner)
    end = time.monotonic() + manner.timeout_seconds
    pause, error = 0.5, ""
    for attempt in range(manner.attempts):
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            return Reply(text=_text(endpoint["provider"], _posted(call, left)))
        except HTTPError as refused:
            error, wait = _refusal(refused, endpoint)
        except TimeoutError:
            break
        except (OSError, ValueError, LookupError, TypeError) as broken:
            error, wait = f"{type(broken).__name__}: {broken}", None
        if attempt + 1 < manner.attempts:
            time.sleep(max(0.0, min(pause if wait is None else wait, _LONGEST_PAUSE, end - time.monotonic())))
            pause *= 2
    late = time.monotonic() >= end
    said = f"no reply within {manner.timeout_seconds:g} s" + (f"; last: {error}" if error else "")
    return Reply(error=said if late else error, late=late)


def _refusal(refused: Any, endpoint: Mapping[str, Any]) -> tuple[str, float | None]:
    """What a refused request says, and how long to wait; a StepFault when it will always be refused."""
    with refused:
        said = refused.read(2000).decode("utf-8", "replace")
    message = f"{endpoint['provider']} answers {refused.code}: {' '.join(said.split())[:300]}"
    if refused.code not in _PASSING:
        raise StepFault(message, "look at the endpoint's url, model and key")
    try:
        return message, float(refused.headers.get("retry-after", ""))
    except ValueError:
        return message, None


def _posted(call: _Call, seconds: float) -> Any:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    data = json.dumps(call.body).encode()
    headers = {"content-type": "application/json", **call.headers}
    request = Request(call.url, data, headers)
    try:
        with urlopen(request, timeout=seconds) as answer:
            return json.loads(answer.read(_MOST_BYTES))
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise TimeoutError from None
        raise


def _base(endpoint: Mapping[str, Any]) -> str:
    url = endpoint.get("url") or _URLS.get(endpoint["provider"])
    if not url:
        raise StepFault(f"an endpoint of {endpoint['provider']} needs a url", "add `url` to the endpoint")
    if not url.startswith(("https://", "http://")):
        raise StepFault(f"`{url}` is no address of the web", "write the endpoint's url as https://...")
    return url.rstrip("/")


def _openai(endpoint: Mapping[str, Any], key: str | None, question: Question, manner: Manner) -> _Call:
    return _Call(
        url=f"{_base(endpoint)}/chat/completions",
        headers={"authorization": f"Bearer {key}"} if key else {},
        body={
            "model": endpoint["model"],
            "messages": [
                {"role": "system", "content": question.system},
                {"role": "user", "content": question.user},
            ],
            "temperature": manner.temperature,
            "max_tokens": manner.max_tokens,
        },
    )


def _anthropic(endpoint: Mapping[str, Any], key: str | None, question: Question, manner: Manner) -> _Call:
    return _Call(
        url=f"{_base(endpoint)}/messages",
        headers={"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})},
        body={
            "model": endpoint["model"],
            "system": question.system,
            "messages": [{"role": "user", "content": question.user}],
            "temperature": manner.temperature,
            "max_tokens": manner.max_tokens,
        },
    )


def _gemini(endpoint: Mapping[str, Any], key: str | None, question: Question, manner: Manner) -> _Call:
    return _Call(
        url=f"{_base(endpoint)}/models/{endpoint['model']}:generateContent",
        headers={"x-goog-api-key": key} if key else {},
        body={
            "systemInstruction": {"parts": [{"text": question.system}]},
            "contents": [{"role": "user", "parts": [{"text": question.user}]}],
            "generationConfig": {"temperature": manner.temperature, "maxOutputTokens": manner.max_tokens},
        },
    )


_FORMS: dict[str, Callable[[Mapping[str, Any], str | None, Question, Manner], _Call]] = {
    "openai": _openai,
    "openrouter": _openai,
    "vllm": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def _text(provider: str, answer: Any) -> str:
    """The text of an answer. LookupError or TypeError when it is not shaped as the provider's are."""
    match provider:
        case "anthropic":
            return "".join(part["text"] for part in answer["content"] if part["type"] == "text")
        case "gemini":
            return "".join(part["text"] for part in answer["candidates"][0]["content"]["parts"])
        case _:
            return str(answer["choices"][0]["message"]["content"] or "")

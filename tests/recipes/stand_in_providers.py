"""A local server with the documented behavior of OpenAI, Anthropic and OpenRouter.

It refuses what they refuse: `temperature` for OpenAI's reasoning models, Anthropic's messages without
`max_tokens`, requests without a key or a version. Some requests of each provider get a 429 with Retry-After,
and Anthropic's also a 529.
"""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_WORDS = [
    "the",
    "harbour",
    "lamp",
    "bell",
    "keeper",
    "sea",
    "tide",
    "rope",
    "stair",
    "gull",
    "lantern",
    "clock",
    "river",
    "fog",
    "coat",
    "coin",
]
_PROGRAM = "```python\ndef add(a, b):\n    return a + b\n```"


@dataclass
class Providers:
    """The server, and the number of responses by provider and status."""

    url: str = ""
    responses: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, path: str, headers: Any, body: dict[str, Any]) -> tuple[int, Any]:
        provider = path.split("/")[1]
        with self.lock:
            count = sum(self.responses[key] for key in self.responses if key[0] == provider)
            status, answer = _overload(provider, count) or _RESPONDERS[provider](headers, body)
            self.responses[provider, status] += 1
        return status, answer


def _overload(provider: str, count: int) -> tuple[int, Any] | None:
    if count == 2:
        return 429, _error("rate_limit_error", "Rate limit reached")
    if count == 5 and provider == "anthropic":
        return 529, _error("overloaded_error", "Overloaded")
    return None


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _invalid(message: str) -> tuple[int, Any]:
    return 400, _error("invalid_request_error", message)


def _anthropic(headers: Any, body: dict[str, Any]) -> tuple[int, Any]:
    if not headers.get("x-api-key"):
        return 401, _error("authentication_error", "x-api-key header is required")
    if not headers.get("anthropic-version"):
        return _invalid("anthropic-version: header is required")
    if not isinstance(body.get("max_tokens"), int):
        return _invalid("max_tokens: Field required")
    if {"temperature", "top_p"} <= body.keys():
        return _invalid("`temperature` and `top_p` cannot both be specified for this model.")
    if any(turn["role"] not in ("user", "assistant") for turn in body["messages"]):
        return _invalid("messages: Unexpected role")
    content = [{"type": "text", "text": _text(body)}]
    return 200, {"content": content, "stop_reason": "end_turn", "usage": {"output_tokens": 12}}


def _openai(headers: Any, body: dict[str, Any]) -> tuple[int, Any]:
    if not str(headers.get("authorization", "")).startswith("Bearer "):
        return 401, _error("invalid_request_error", "You didn't provide an API key.")
    reasons = body["model"].startswith(("gpt-5", "o1", "o3", "o4"))
    if reasons and body.get("temperature", 1) != 1:
        return _invalid("Unsupported value: 'temperature' does not support 0 with this model.")
    choice = {"message": {"role": "assistant", "content": _text(body)}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"completion_tokens": 12}}


_RESPONDERS = {"anthropic": _anthropic, "openai": _openai, "openrouter": _openai}


def _text(body: dict[str, Any]) -> str:
    """Prose that depends on the request, and a verdict for judges."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    prose = " ".join(_WORDS[byte % len(_WORDS)] for byte in digest[:12])
    asked = body["messages"][-1]["content"]
    program = f"\n{_PROGRAM}" if "Python function" in asked else ""
    return f"{prose}.{program}\nVERDICT: {1 + digest[12] % 10}"


@contextmanager
def serve_providers() -> Generator[Providers]:
    """Serve each provider's API under its name: URL/anthropic, URL/openai, URL/openrouter."""
    providers = Providers()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = providers.respond(self.path, self.headers, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            if status == 429:
                self.send_header("retry-after", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    providers.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield providers
    finally:
        server.shutdown()
        server.server_close()

"""A local HTTP/1.1 server that keeps connections open, and requests to it."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.runtime.engines.misbehaving_server import send_response

from posttrain.runtime.engines.circuit_breaker import CircuitBreaker
from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.endpoint_client import CompletionRequest, EndpointClient, RetryPolicy
from posttrain.runtime.engines.providers import SamplingParams
from posttrain.runtime.engines.transport import HttpRequest, post_json


@contextmanager
def keepalive_server(
    answer: Callable[[BaseHTTPRequestHandler, int], None], tls: ssl.SSLContext | None = None
) -> Iterator[Any]:
    """A server that lists the client ports and headers of its requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            server.clients.append(self.client_address[1])
            server.headers.append(dict(self.headers))
            answer(self, len(server.clients))

        def do_GET(self) -> None:
            send_response(self, 200, b"")

        def log_message(self, *_: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        clients: list[int]
        headers: list[dict[str, str]]

        def handle_error(self, request: Any, client_address: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    server.clients, server.headers = [], []
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def fine(exchange: BaseHTTPRequestHandler, _number: int) -> None:
    send_response(exchange, 200, b'{"fine": true}')


def posted(
    port: int, *, host: str = "127.0.0.1", scheme: str = "http", seconds: float = 5.0, text: str = ""
) -> Any:
    url = f"{scheme}://{host}:{port}/v1/chat/completions"
    return post_json(HttpRequest(url=url, headers={}, body={"text": text}), seconds)


def complete(url: str, **more: Any) -> Completion:
    client = EndpointClient({"provider": "openai", "model": "m", "base_url": url, "api_key": None, **more})
    request = CompletionRequest(
        prompt=[{"role": "user", "content": "a"}], sampling=SamplingParams(temperature=0.0, max_tokens=4)
    )
    policy = RetryPolicy(attempts=1, request_timeout=5.0)
    completion = client.complete(request, policy, threading.Event(), CircuitBreaker.disabled())
    assert completion is not None
    return completion

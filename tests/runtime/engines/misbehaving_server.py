"""A local HTTP server with configurable failures."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Exchange = BaseHTTPRequestHandler


@dataclass
class FakeServer:
    """A server. `behave` gets the handler, the request's body and its number, and sends any response."""

    behave: Callable[["FakeServer", Exchange, dict[str, Any], int], None]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    in_flight: int = 0
    max_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def texts(self) -> list[str]:
        """The prompts of all requests, in order of arrival."""
        return [prompt_of(body) for body in self.requests]


def prompt_of(body: dict[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else body["messages"][-1]["content"]


def send_response(exchange: Exchange, status: int, data: bytes, **headers: str) -> None:
    exchange.send_response(status)
    for name, value in {"content-length": str(len(data)), **headers}.items():
        exchange.send_header(name.replace("_", "-"), value)
    exchange.end_headers()
    exchange.wfile.write(data)


def chat_response(text: str, finish: str = "stop") -> bytes:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": len(text)}}).encode()


def echo(_wild: FakeServer, exchange: Exchange, body: dict[str, Any], _number: int) -> None:
    """Reply with the prompt in upper case."""
    send_response(exchange, 200, chat_response(prompt_of(body).upper()))


@contextmanager
def run_server(wild: FakeServer) -> Iterator[FakeServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with wild.lock:
                number = len(wild.requests)
                wild.requests.append(body)
                wild.in_flight += 1
                wild.max_in_flight = max(wild.max_in_flight, wild.in_flight)
            try:
                wild.behave(wild, self, body, number)
            except OSError:  # the other side has hung up
                self.close_connection = True
            finally:
                with wild.lock:
                    wild.in_flight -= 1

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wild.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield wild
    finally:
        server.shutdown()
        server.server_close()

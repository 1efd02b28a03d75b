"""A real HTTP server of this machine that can behave as badly as servers do."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Exchange = BaseHTTPRequestHandler


@dataclass
class Wild:
    """A server; `behave` gets the exchange, the request's body and its number, and does what it likes."""

    behave: Callable[["Wild", Exchange, dict[str, Any], int], None]
    url: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    under_way: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def texts(self) -> list[str]:
        """What was asked, in the order of arrival."""
        return [prompt_of(body) for body in self.seen]


def prompt_of(body: dict[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else body["messages"][-1]["content"]


def send(exchange: Exchange, status: int, data: bytes, **headers: str) -> None:
    exchange.send_response(status)
    for name, value in {"content-length": str(len(data)), **headers}.items():
        exchange.send_header(name.replace("_", "-"), value)
    exchange.end_headers()
    exchange.wfile.write(data)


def chat(text: str, finish: str = "stop") -> bytes:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": len(text)}}).encode()


def echo(_wild: Wild, exchange: Exchange, body: dict[str, Any], _number: int) -> None:
    """Answer with the prompt, in capitals."""
    send(exchange, 200, chat(prompt_of(body).upper()))


@contextmanager
def running(wild: Wild) -> Iterator[Wild]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with wild.lock:
                number = len(wild.seen)
                wild.seen.append(body)
                wild.under_way += 1
                wild.most = max(wild.most, wild.under_way)
            try:
                wild.behave(wild, self, body, number)
            except OSError:  # the other side has hung up
                self.close_connection = True
            finally:
                with wild.lock:
                    wild.under_way -= 1

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

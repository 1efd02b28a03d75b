"""A local HTTP server with the API of each provider, for judges in tests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FakeJudge:
    """A model that replies with a function from the request's body to a status and a text."""

    url: str = ""
    answer: Callable[[dict[str, Any]], tuple[int, str]] = lambda body: (200, "fine\nVERDICT: 7")
    headers: dict[str, str] = field(default_factory=dict[str, str])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    in_flight: int = 0
    max_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


RESPONSE_BUILDERS: dict[str, Callable[[str], Any]] = {
    "/chat/completions": lambda text: {"choices": [{"message": {"content": text}}]},
    "/messages": lambda text: {
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    },
    ":generateContent": lambda text: {"candidates": [{"content": {"parts": [{"text": text}]}}]},
}


def request_handler(model: FakeJudge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with model.lock:
                model.in_flight += 1
                model.max_in_flight = max(model.max_in_flight, model.in_flight)
                model.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
            status, text = model.answer(body)
            with model.lock:
                model.in_flight -= 1
            shaped = next((form for end, form in RESPONSE_BUILDERS.items() if self.path.endswith(end)), None)
            data = json.dumps(shaped(text) if shaped and status == 200 else text).encode()
            self.send_response(status)
            for name, value in {
                "content-length": str(len(data)),
                **(model.headers if status != 200 else {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    return Handler


@contextmanager
def run_judge(model: FakeJudge) -> Iterator[FakeJudge]:
    """Run the server for the duration of the context."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), request_handler(model))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield model
    server.shutdown()
    server.server_close()

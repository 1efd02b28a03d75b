"""A local server that answers as endpoints and as the Hugging Face Hub do, and records the requests."""

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]


@dataclass
class LocalServices:
    """`answers` has the status and the body of each path; a callable gets the token of the request."""

    answers: dict[str, Answer | Callable[[str], Answer]] = field(default_factory=dict)
    # The header with which the hub says why it refuses a path.
    error_codes: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    url: str = ""
    delay: float = 0.0

    def add_repository(self, kind: str, name: str, *revisions: str, **about: Any) -> None:
        """A repository of the hub with these branches."""
        for path in (f"/api/{kind}s/{name}", *(f"/api/{kind}s/{name}/revision/{one}" for one in revisions)):
            self.answers[path] = (
                200,
                {"id": name, "sha": "0" * 40, "private": False, "siblings": [], **about},
            )

    def find(self, path: str, token: str) -> tuple[int, Any, str]:
        """Status, body and error code of a path."""
        known = self.answers.get(path)
        if known is not None:
            status, body = known(token) if callable(known) else known
            return status, body, self.error_codes.get(path, "") if status >= 400 else ""
        parts = path.split("/")
        if parts[1] != "api":
            return 404, {"error": "no such path"}, ""
        repository = "/".join(parts[:5])
        return 404, {"error": "no"}, "RevisionNotFound" if repository in self.answers else "RepoNotFound"


@contextmanager
def run_services() -> Generator[LocalServices]:
    services = LocalServices()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(services))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    services.url = f"http://127.0.0.1:{server.server_port}"
    yield services
    server.shutdown()
    server.server_close()


def _make_handler(services: LocalServices) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            services.requests.append(f"{self.command} {path}")
            time.sleep(services.delay)
            status, body, code = services.find(path, self.headers.get("authorization", ""))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Suppress the log output."""

    return Handler

"""A local server that returns commits like the Hub."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

# By kind and name: the commit of each branch or tag.
Repositories = Mapping[tuple[str, str], Mapping[str, str]]


@contextmanager
def fake_hub(repositories: Repositories) -> Iterator[tuple[str, list[str]]]:
    """The address of a fake Hub with these repositories, and the list of requested paths."""
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(repositories, asked))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def _make_handler(repositories: Repositories, asked: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            found = path.split("/")
            if len(found) < 5:
                return self._refuse("RepoNotFound")
            _, _, kind, owner, name, *rest = found
            asked.append(path)
            branches = repositories.get((kind.removesuffix("s"), f"{owner}/{name}"))
            if branches is None:
                return self._refuse("RepoNotFound")
            commit = branches.get("/".join(rest[1:]) if rest else "main")
            if commit is None:
                return self._refuse("RevisionNotFound")
            about = {"id": f"{owner}/{name}", "sha": commit, "private": False, "tags": [], "siblings": []}
            return self._send(200, json.dumps({**about, "downloads": 0, "likes": 0}).encode())

        def _refuse(self, code: str) -> None:
            self._send(404, b'{"error": "no"}', {"X-Error-Code": code})

        def _send(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    return Handler

"""A local server with the part of the Hub's API that loading a dataset needs."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "a" * 40


@contextmanager
def serve_hub(repository: str, files: Mapping[str, bytes], token: str | None = None) -> Iterator[str]:
    """Serve one dataset, and yield the address of the server. With `token`, requests must have it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(repository, files, token))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _handler(repository: str, files: Mapping[str, bytes], token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            # Like the hub, hide what the token does not allow.
            path = self.path.partition("?")[0] if _is_allowed(self, token) else ""
            if path.startswith(f"/datasets/{repository}/resolve/"):
                self.send(files.get(path.split("/", 6)[-1]))
            elif path.startswith(f"/api/datasets/{repository}/tree/"):
                inside = path.split("/tree/")[1].partition("/")[2]
                self.send(json.dumps(list_files(files, inside)).encode())
            elif path.startswith(f"/api/datasets/{repository}"):
                names = [{"rfilename": name} for name in files]
                about = {"id": repository, "sha": COMMIT, "siblings": names, "private": False, "tags": []}
                self.send(json.dumps({**about, "downloads": 0, "likes": 0}).encode())
            else:
                self.send(None)

        def send(self, data: bytes | None) -> None:
            self.send_response(404 if data is None else 200)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha1(data or b"").hexdigest()}"')
            self.send_header("X-Error-Code", "EntryNotFound") if data is None else None
            self.send_header("content-length", str(len(data or b"")))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data or b"")

        def do_GET(self) -> None:
            self.answer()

        def do_HEAD(self) -> None:
            self.answer()

        def log_message(self, *_: Any) -> None:
            return

    return Handler


def _is_allowed(request: BaseHTTPRequestHandler, token: str | None) -> bool:
    return token is None or request.headers.get("Authorization") == f"Bearer {token}"


def list_files(files: Mapping[str, bytes], folder: str) -> list[dict[str, Any]]:
    """All files below a folder, and for the root also its folders."""
    inside = {name: data for name, data in files.items() if not folder or name.startswith(f"{folder}/")}
    entries = [
        {"type": "file", "oid": hashlib.sha1(data).hexdigest(), "size": len(data), "path": name}
        for name, data in inside.items()
    ]
    folders = {name.partition("/")[0] for name in files if "/" in name} if not folder else set()
    return entries + [
        {"type": "directory", "oid": "0" * 40, "size": 0, "path": name} for name in sorted(folders)
    ]

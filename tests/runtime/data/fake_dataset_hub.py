"""A local server with the part of the Hub's API that loading datasets and models needs."""

import hashlib
import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

COMMIT = "a" * 40


# By kind (`datasets` or `models`) and name: the files of each repository.
Repositories = Mapping[tuple[str, str], Mapping[str, bytes]]


@contextmanager
def serve_hub(repository: str, files: Mapping[str, bytes], token: str | None = None) -> Generator[str]:
    """Serve one dataset, and yield the address of the server. With `token`, requests must have it."""
    with serve_repositories({("datasets", repository): files}, token) as address:
        yield address


@contextmanager
def serve_repositories(repositories: Repositories, token: str | None = None) -> Generator[str]:
    """Serve datasets and models, and yield the address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(repositories, token))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _response(repositories: Repositories, path: str) -> bytes | None:
    """The body of the response to a path, or None if there is nothing."""
    for (kind, name), files in repositories.items():
        resolved = f"/datasets/{name}/resolve/" if kind == "datasets" else f"/{name}/resolve/"
        about = f"/api/{kind}/{name}"
        if path.startswith(resolved):
            return files.get(path.removeprefix(resolved).partition("/")[2])
        if path.startswith(f"{about}/tree/"):
            inside = path.split("/tree/")[1].partition("/")[2]
            return json.dumps(list_files(files, inside)).encode()
        if path == about or path.startswith(f"{about}/"):
            names = [{"rfilename": file} for file in files]
            facts = {"id": name, "sha": COMMIT, "siblings": names, "private": False, "tags": []}
            return json.dumps({**facts, "downloads": 0, "likes": 0}).encode()
    return None


def _files_of(repositories: Repositories, path: str) -> Mapping[str, bytes]:
    return next(
        (
            files
            for (kind, name), files in repositories.items()
            if path.startswith(f"/api/{kind}/{name}/paths-info/")
        ),
        {},
    )


def _handler(repositories: Repositories, token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            # Like the hub, hide what the token does not allow.
            path = self.path.partition("?")[0] if _is_allowed(self, token) else ""
            self.send(_response(repositories, unquote(path)))

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

        def do_POST(self) -> None:
            """Describe the files that a client names."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            names = parse_qs(body.decode()).get("paths", []) or json.loads(body)["paths"]
            path = unquote(self.path.partition("?")[0]) if _is_allowed(self, token) else ""
            files = _files_of(repositories, path)
            found = [one for one in list_files(files, "") if one["path"] in names and one["type"] == "file"]
            self.send(json.dumps(found).encode() if files else None)

        def do_HEAD(self) -> None:
            self.answer()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            return

    return Handler


def _is_allowed(request: BaseHTTPRequestHandler, token: str | None) -> bool:
    return token is None or request.headers.get("Authorization") == f"Bearer {token}"


def list_files(files: Mapping[str, bytes], folder: str) -> list[dict[str, Any]]:
    """All files below a folder, and for the root also its folders."""
    inside = {name: data for name, data in files.items() if not folder or name.startswith(f"{folder}/")}
    entries = [
        {"type": "file", "oid": git_digest(data), "size": len(data), "path": name, **_large(name, data)}
        for name, data in inside.items()
    ]
    folders = {name.partition("/")[0] for name in files if "/" in name} if not folder else set()
    return entries + [
        {"type": "directory", "oid": "0" * 40, "size": 0, "path": name} for name in sorted(folders)
    ]


def git_digest(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _large(name: str, data: bytes) -> dict[str, Any]:
    """What the hub says about files that Git LFS has."""
    if not name.endswith(".parquet"):
        return {}
    return {"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}

"""A hub that accepts commits to a repository, and serves its files."""

import base64
import hashlib
import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

COMMIT = "c" * 40


class FakeHub(ThreadingHTTPServer):
    """The part of the hub's API that a commit to a repository needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.seen: list[tuple[str, str, Any]] = []
        self.files: dict[str, bytes] = {}
        # The uploaded large files by digest.
        self.large: dict[str, bytes] = {}
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def _mode(path: str) -> str:
    return "lfs" if path.endswith(".safetensors") else "regular"


class HubHandler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        lines = [json.loads(line) for line in body.splitlines() if line]
        self.server.seen.append((self.path, token, lines))
        if self.server.status != 200:
            return self.say(self.server.status, {"error": "this token may not write"})
        if self.path.endswith("/api/validate-yaml"):
            return self.say(200, {"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            files = [{"path": f["path"], "uploadMode": _mode(f["path"])} for f in lines[0]["files"]]
            return self.say(200, {"files": [{**file, "shouldIgnore": False} for file in files]})
        if self.path.endswith("/info/lfs/objects/batch"):
            return self.say(200, {"transfer": "basic", "objects": self.places(lines[0]["objects"])})
        if "/commit/" in self.path:
            for kind in ("file", "lfsFile"):
                given = [line["value"] for line in lines if line["key"] == kind]
                self.server.files |= {f["path"]: self.content(f) for f in given}
            url = f"{self.server.url}/someone/out/commit/{COMMIT}"
            return self.say(200, {"commitUrl": url, "commitOid": COMMIT, "success": True})
        return self.say(200, {"url": f"{self.server.url}/someone/out"})

    def do_GET(self) -> None:
        """Answer for the revision of a repository, or a file at it."""
        self.server.seen.append((self.path, self.headers.get("Authorization") or "", []))
        if self.server.files and self.path.startswith("/api/models/"):
            return self.say(200, {"id": "someone/out", "sha": COMMIT})
        content = self.server.files.get(unquote(self.path.partition(f"/resolve/{COMMIT}/")[2]))
        if content is None:
            return self.say(404, {"error": "nothing here"}, {"X-Error-Code": "EntryNotFound"})
        return self.send(200, content, {"ETag": hashlib.sha1(content).hexdigest(), "X-Repo-Commit": COMMIT})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        """Receive a large file, as Git LFS sends it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers.get("Authorization") or "", []))
        self.server.large[self.path.rpartition("/")[2]] = body
        self.say(200, {})

    def places(self, objects: list[Any]) -> list[Any]:
        """Return the upload addresses of large files, like the batch API of Git LFS."""
        return [
            {**one, "actions": {"upload": {"href": f"{self.server.url}/large/{one['oid']}"}}}
            for one in objects
        ]

    def content(self, file: Any) -> bytes:
        if "oid" not in file:
            return base64.b64decode(file["content"])
        found = self.server.large[file["oid"]]
        assert hashlib.sha256(found).hexdigest() == file["oid"]
        return found

    def say(self, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(answer).encode()
        self.send(status, body, {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Suppress the log output."""

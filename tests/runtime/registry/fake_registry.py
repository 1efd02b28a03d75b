"""A registry in memory, with the API of referrers, authentication and faults on request."""

import hashlib
import json
import threading
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class FakeRegistry:
    """The state of the registry, which tests read and change."""

    address: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    # What it asks for: "", "basic" or "bearer".
    auth: str = ""
    user: tuple[str, str] = ("anna", "geheim")
    has_referrers: bool = True
    # The statuses of the next responses, with their bodies.
    failures: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    # Replaces the content of blobs that are read.
    served: dict[str, bytes] = field(default_factory=dict)
    # Blobs are redirected to this server.
    redirect: str = ""
    # Bytes of a blob after which the connection breaks, once each.
    breaks: list[int] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def put_manifest(self, data: bytes, media_type: str, tag: str = "") -> str:
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        for version in (digest, tag):
            self.manifests[version] = (media_type, data)
        return digest

    def put_blob(self, data: bytes) -> str:
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest


class _Handler(BaseHTTPRequestHandler):
    registry: FakeRegistry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_request(self) -> None:
        state, parts = self.registry, urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        state.requests.append((self.command, self.path, dict(self.headers)))
        if parts.path == "/token":
            self.answer_token(parse_qs(parts.query))
        elif state.failures:
            status, text, headers = state.failures.pop(0)
            self.answer(status, text, **headers)
        elif not self.is_authorized():
            self.ask()
        else:
            self.route(parts.path, parse_qs(parts.query), body)

    def is_authorized(self) -> bool:
        given = self.headers.get("Authorization", "")
        expected = {"": given, "basic": f"Basic {self.encoded_user()}", "bearer": "Bearer the-token"}
        return given == expected[self.registry.auth]

    def encoded_user(self) -> str:
        return b64encode(":".join(self.registry.user).encode()).decode()

    def ask(self) -> None:
        realm = (
            f'Bearer realm="http://{self.registry.address}/token",service="fake",scope="repository:a:pull"'
        )
        error = {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}
        challenge = realm if self.registry.auth == "bearer" else 'Basic realm="fake"'
        self.answer(401, json.dumps(error).encode(), WWW_Authenticate=challenge)

    def answer_token(self, query: dict[str, list[str]]) -> None:
        if self.headers.get("Authorization") != f"Basic {self.encoded_user()}":
            self.answer(401, b'{"errors": [{"code": "DENIED", "message": "wrong password"}]}')
            return
        assert query["service"] == ["fake"]
        self.answer(200, b'{"token": "the-token"}')

    def route(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        state = self.registry
        kind, version = path.split("/")[-2:]
        if kind == "manifests" and self.command == "PUT":
            digest = state.put_manifest(body, self.headers["Content-Type"], version)
            headers = {"OCI_Subject": "yes"} if state.has_referrers and b'"subject"' in body else {}
            self.answer(201, Docker_Content_Digest=digest, **headers)
        elif kind == "manifests" and version in state.manifests:
            media_type, data = state.manifests[version]
            self.answer(200, data, Content_Type=media_type)
        elif kind == "referrers" and state.has_referrers:
            self.answer(200, self.referrers(version), Content_Type="application/vnd.oci.image.index.v1+json")
        elif kind == "blobs" and version in state.blobs:
            self.send_blob(version)
        elif path.endswith("/blobs/uploads/"):
            self.answer(202, Location="/upload/one")
        elif self.command == "PUT":
            state.blobs[query["digest"][0]] = body
            self.answer(201)
        else:
            self.answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such thing"}]}')

    def referrers(self, digest: str) -> bytes:
        found: list[dict[str, Any]] = []
        for version, (media_type, data) in self.registry.manifests.items():
            manifest = json.loads(data)
            if version.startswith("sha256:") and manifest.get("subject", {}).get("digest") == digest:
                described = {"mediaType": media_type, "digest": version, "size": len(data)}
                found.append({**described, "artifactType": manifest.get("artifactType")})
        return json.dumps({"schemaVersion": 2, "manifests": found}).encode()

    def send_blob(self, digest: str) -> None:
        state = self.registry
        if state.redirect:
            self.answer(307, Location=f"http://{state.redirect}{self.path}")
            return
        data = state.served.get(digest, state.blobs[digest])
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        if state.breaks and self.command == "GET":
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(data[start : start + state.breaks.pop(0)])
            self.close_connection = True
        else:
            self.answer(206 if start else 200, data[start:])


for _method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler.handle_request)


@contextmanager
def serve_registry() -> Generator[FakeRegistry]:
    state = FakeRegistry()
    handler = type("Handler", (_Handler,), {"registry": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    state.address = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()

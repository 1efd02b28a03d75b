"""Responses that no registry should give: no traceback, no endless loop, no unlimited memory."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import pytest

from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_manifest import Descriptor, digest_of
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.registry.registry_errors import RegistryError
from posttrain.runtime.registry.registry_session import RegistrySession

Respond = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegistrySession, "_pause", Mock())


@contextmanager
def server(respond: Respond) -> Generator[RegistryClient]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def handle_request(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            respond(self)

    for method in ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_request)
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        reference = parse_reference(f"oci://127.0.0.1:{running.server_address[1]}/a")
        with RegistryClient(reference, chunk_bytes=4) as client:
            yield client
    finally:
        running.shutdown()
        running.server_close()


def answer(handler: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


LOCATIONS = ["http://[::1", "file:///etc/passwd", "http://host:99999/", "ftp://host/x", "http://a..b/"]


@pytest.mark.parametrize("location", LOCATIONS)
def test_a_redirect_to_no_server_is_reported(location: str) -> None:
    blob = Descriptor(media_type="x/y", digest=digest_of(b"data"), size=4)
    with (
        server(lambda handler: answer(handler, 307, Location=location)) as client,
        pytest.raises(RegistryError, match="cannot reach the registry"),
    ):
        client.read_blob(blob)


@pytest.mark.parametrize("location", LOCATIONS)
def test_an_upload_to_no_server_is_reported(location: str) -> None:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, 404 if handler.command == "HEAD" else 202, Location=location)

    with server(respond) as client, pytest.raises(RegistryError, match="cannot reach the registry"):
        client.upload_blob(Blob(digest=digest_of(b"data"), size=4, data=b"data"))


@pytest.mark.parametrize("end", ["0-0", "", "0-\u00b2", "0-" + "9" * 5000, "0-99"])
def test_an_upload_without_progress_ends(end: str, tmp_path: Path) -> None:
    """Also with numbers that are none: `isdigit` accepts a superscript."""
    data = b"0123456789"
    patches: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        patches.extend(["patch"] if handler.command == "PATCH" else [])
        status = {"HEAD": 404, "GET": 204}.get(handler.command, 202)
        answer(handler, status, Location="/upload", Range=end, OCI_Chunk_Min_Length="\u00b2")

    with server(respond) as client, pytest.raises(RegistryError):
        client.upload_blob(Blob(digest=digest_of(data), size=len(data), data=data))
    assert len(patches) <= 5


@pytest.mark.parametrize("path", ["challenge", "token", "referrers"])
def test_an_endless_body_is_not_read_to_its_end(path: str) -> None:
    sent: list[int] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        address = f"http://{handler.headers['Host']}/token"
        is_endless = path == "referrers" or ("/token" in handler.path) == (path == "token")
        handler.send_response(200 if path == "referrers" or "/token" in handler.path else 401)
        if path != "referrers":
            handler.send_header("WWW-Authenticate", f'Bearer realm="{address}"')
        handler.send_header("Content-Type", "application/vnd.oci.image.index.v1+json")
        handler.send_header("Content-Length", str(1 << 40) if is_endless else "0")
        handler.end_headers()
        handler.close_connection = True
        try:
            while is_endless and len(sent) < 200:
                handler.wfile.write(b" " * (1 << 20))
                sent.append(1)
        except OSError:
            pass

    with server(respond) as client, pytest.raises(RegistryError):
        client.referrers(digest_of(b"data"))
    assert len(sent) < 200

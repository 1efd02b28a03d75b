"""Registries and authorization servers that answer nonsense: an error with advice, never a traceback."""

from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from posttrain.runtime.errors import StepError
from posttrain.runtime.lockfile.image_digests import resolve_tag


class _Registry(BaseHTTPRequestHandler):
    """Asks for a token, and gives the answer of the test."""

    answer = b""
    challenge = ""

    def do_GET(self) -> None:
        if self.path.startswith("/token"):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.answer)
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", self.challenge.replace("HOST", self.headers["Host"]))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def registry() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


GOOD = 'Bearer realm="http://HOST/token",service="s",scope="x"'


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b"null", b'{"token": 3}', b'{"token": "a\\nb"}', b"[" * 100000, b"{}"]
)
def test_an_answer_without_a_token(answer: bytes, registry: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_Registry, "answer", answer)
    monkeypatch.setattr(_Registry, "challenge", GOOD)
    with pytest.raises(StepError, match="without a token"):
        resolve_tag(f"{registry}/name:tag")


@pytest.mark.parametrize(
    "challenge",
    [
        "Bearer",
        'Bearer realm=""',
        'Bearer realm="ftp://x"',
        'Bearer realm="http://[::1"',
        'Bearer realm="http://a..b/"',
    ],
)
def test_a_challenge_without_an_address(challenge: str, registry: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_Registry, "challenge", challenge)
    with pytest.raises(StepError, match="cannot reach the registry"):
        resolve_tag(f"{registry}/name:tag")


@pytest.mark.parametrize("image", ["localhost:99999/name:tag", "a..b/name:tag", "[::1:5/name:tag"])
def test_an_impossible_host(image: str):
    with pytest.raises(StepError):
        resolve_tag(image)

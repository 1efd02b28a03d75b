"""Endpoints with TLS and behind proxies."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_service
from tests.runtime.engines.keepalive_server import complete, fine, keepalive_server, posted
from tests.runtime.engines.misbehaving_server import (
    FakeServer,
    chat_response,
    echo,
    run_server,
    send_response,
)
from tests.runtime.engines.proxy_server import FakeProxy, run_proxy

from posttrain.runtime.distributed import vllm_server
from posttrain.runtime.engines import connection_pool
from posttrain.runtime.environment_proxies import exempt_loopback, proxy_for
from posttrain.runtime.errors import StepError
from posttrain.runtime.process_environment import forkserver_environment

pytestmark = pytest.mark.usefixtures("without_proxies")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for `model.example` with its key, in one file."""
    openssl = require_service(
        "openssl", shutil.which("openssl"), "install it (Debian: apt-get install openssl)"
    )
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=DNS:model.example,IP:127.0.0.1"
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2"]
    command = [openssl, "req", "-x509", *made, "-subj", "/CN=model.example", "-addext", names]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    whole = folder / "both.pem"
    whole.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return whole


@contextmanager
def tls_server(certificate: Path) -> Iterator[Any]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with keepalive_server(
        lambda exchange, _n: send_response(exchange, 200, chat_response("hi")), tls
    ) as server:
        yield server


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Trust the certificate, as a user does with SSL_CERT_FILE."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connection_pool._trusted_certificates.cache_clear()
    connection_pool._transports.reset()
    yield certificate
    connection_pool._trusted_certificates.cache_clear()
    connection_pool._transports.reset()


def test_a_certificate_of_a_private_authority_is_trusted_by_its_file(trusted: Path):
    with tls_server(trusted) as server:
        for _ in range(3):
            assert posted(server.server_port, scheme="https")["choices"]
        assert len(set(server.clients)) == 1


def test_an_unknown_certificate_is_explained(certificate: Path):
    with tls_server(certificate) as server:
        error = complete(f"https://127.0.0.1:{server.server_port}/v1").error
    assert error.startswith("the server's certificate is not trusted: self")
    assert "SSL_CERT_FILE" in error


def test_a_server_without_tls_is_explained():
    with keepalive_server(fine) as server:
        error = complete(f"https://127.0.0.1:{server.server_port}/v1").error
    assert error.startswith("no TLS connection: SSLError")
    assert "write its base_url as http://" in error


def test_a_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch):
    with run_server(FakeServer(echo)) as wild, run_proxy(FakeProxy(port_of(wild))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        # Only the proxy can resolve this name.
        assert complete("http://model.example:8000/v1").text == "A"
        assert complete("http://other.example/v1").text == "A"
        assert proxy.requests == [
            "POST http://model.example:8000/v1/chat/completions HTTP/1.1",
            "POST http://other.example/v1/chat/completions HTTP/1.1",
        ]
        monkeypatch.setenv("NO_PROXY", "other.example,127.0.0.1")
        assert complete(wild.url).text == "A"
    assert len(proxy.requests) == 2


def test_tls_goes_through_a_tunnel_that_is_reused(trusted: Path, monkeypatch: pytest.MonkeyPatch):
    with tls_server(trusted) as server, run_proxy(FakeProxy(server.server_port)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        for _ in range(3):
            assert complete("https://model.example/v1").text == "hi"
    assert proxy.requests == ["CONNECT model.example:443 HTTP/1.1"]


def test_a_proxy_is_given_the_user_of_its_url(monkeypatch: pytest.MonkeyPatch):
    authorization = "Basic bWU6cEBzcw=="
    with (
        run_server(FakeServer(echo)) as wild,
        run_proxy(FakeProxy(port_of(wild), authorization=authorization)) as proxy,
    ):
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("http://", "http://me:p%40ss@"))
        assert complete("http://model.example/v1").text == "A"
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with pytest.raises(StepError, match="status 407"):
            complete("http://model.example/v1")
        tunnelled = complete("https://model.example/v1").error
    assert "407 Proxy Authentication Required" in (tunnelled or "")


def test_a_proxy_that_is_down_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "127.0.0.1:9")
    assert "ConnectionRefusedError" in complete("http://model.example/v1").error


@pytest.mark.parametrize(
    "proxy",
    [
        "ftp://me:p4ss@host",
        "socks5://me:p4ss@host:1",
        "http://me:p4ss@:8",
        "http://[me:p4ss",
        "http://me:p4ss@127.0.0.1:99999",
    ],
)
def test_an_unusable_proxy_ends_the_step_without_its_password(proxy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(StepError, match="the proxy for endpoints") as raised:
        complete("http://model.example/v1")
    assert "p4ss" not in f"{raised.value} {raised.value.advice}"


def test_the_proxy_of_a_url(monkeypatch: pytest.MonkeyPatch):
    assert proxy_for("https://a.example/v1") is None
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", "b.example, c.example:8443,::1")
    assert proxy_for("https://a.example/v1") == "http://proxy:3128"
    assert proxy_for("http://a.example/v1") is None
    assert proxy_for("https://x.b.example/v1") is None
    assert proxy_for("https://c.example:8443/v1") is None
    assert proxy_for("https://c.example/v1") == "http://proxy:3128"
    assert proxy_for("https://[::1]:9/v1") is None


def test_a_worker_uses_no_proxy_for_the_loopback_interface() -> None:
    assert exempt_loopback({"NO_PROXY": "b.example"}) == {}
    exempt = "b.example,localhost,127.0.0.1,::1"
    variables = {"https_proxy": "http://proxy:3128", "NO_PROXY": "b.example,localhost"}
    assert exempt_loopback(variables) == {"NO_PROXY": exempt, "no_proxy": exempt}


def test_a_worker_inherits_the_proxies() -> None:
    inherited = forkserver_environment({"HTTPS_PROXY": "http://proxy:3128"})
    assert inherited["HTTPS_PROXY"] == "http://proxy:3128"
    assert "127.0.0.1" in inherited["NO_PROXY"].split(",")


def test_the_health_of_a_local_vllm_server_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with keepalive_server(fine) as server:
        assert vllm_server.is_healthy(f"http://127.0.0.1:{server.server_port}")


def port_of(wild: FakeServer) -> int:
    return int(wild.url.rpartition(":")[2].partition("/")[0])

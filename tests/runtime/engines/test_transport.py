"""The transport of endpoints: pooled connections, time limits, redirects, and idle connections that close."""

import multiprocessing
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.runtime.engines.keepalive_server import complete, fine, keepalive_server, posted
from tests.runtime.engines.misbehaving_server import Exchange, FakeServer, run_server, send_response

from posttrain.runtime.engines.transport import HttpError

pytestmark = pytest.mark.usefixtures("without_proxies")


def test_a_connection_serves_many_requests():
    with keepalive_server(fine) as server:
        for _ in range(5):
            assert posted(server.server_port) == {"fine": True}
        assert len(set(server.clients)) == 1
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda _: posted(server.server_port)["fine"], range(40))) == [True] * 40
    assert len(server.clients) == 45
    assert len(set(server.clients)) <= 5


def test_an_error_status_leaves_the_connection_usable():
    def answer(exchange: Exchange, number: int) -> None:
        send_response(exchange, 503 if number == 1 else 200, b'{"fine": true}')

    with keepalive_server(answer) as server:
        with pytest.raises(HttpError, match="503"):
            posted(server.server_port)
        posted(server.server_port)
    assert len(set(server.clients)) == 1


def test_a_forked_process_uses_no_connection_of_its_parent():
    with keepalive_server(fine) as server:
        posted(server.server_port)
        context = multiprocessing.get_context("fork")
        child = context.Process(target=posted, args=(server.server_port,))
        child.start()
        child.join(20)
        assert child.exitcode == 0
        posted(server.server_port)
    parent, other, again = server.clients
    assert parent == again != other


def test_a_request_on_a_connection_that_the_server_closes_is_sent_again():
    def answer(exchange: Exchange, number: int) -> None:
        if number == 2:  # the server decided to close the idle connection when the request arrived
            exchange.close_connection = True
        else:
            fine(exchange, number)

    with keepalive_server(answer) as server:
        posted(server.server_port)
        assert posted(server.server_port) == {"fine": True}
    assert server.clients[0] == server.clients[1] != server.clients[2]


def test_a_request_on_a_new_connection_is_sent_once():
    def answer(exchange: Exchange, _number: int) -> None:
        exchange.close_connection = True

    with keepalive_server(answer) as server:
        with pytest.raises(OSError, match="disconnected"):
            posted(server.server_port)
        assert len(server.clients) == 1


@pytest.mark.parametrize("part", ["status line", "body"])
def test_the_time_limit_holds_for_a_server_that_sends_a_byte_at_a_time(part: str):
    def answer(exchange: Exchange, _number: int) -> None:
        exchange.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if part == "body" else b"x: "))
        for _ in range(200):
            exchange.wfile.write(b" ")
            time.sleep(0.05)

    with keepalive_server(answer) as server:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            posted(server.server_port, seconds=0.7)
        assert time.monotonic() - began < 3


def test_the_time_limit_holds_for_a_server_that_reads_nothing():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            posted(deaf.getsockname()[1], seconds=0.7, text="x" * (32 << 20))
        assert time.monotonic() - began < 5


def test_redirects_are_not_followed_and_cookies_are_not_kept():
    def answer(exchange: Exchange, number: int) -> None:
        if number == 1:
            send_response(exchange, 200, b"{}", set_cookie="session=1")
        else:
            send_response(exchange, 307, b"elsewhere", location="/other")

    with keepalive_server(answer) as server:
        posted(server.server_port)
        with pytest.raises(HttpError, match="307: elsewhere"):
            posted(server.server_port)
    assert len(server.headers) == 2
    assert {name.lower() for name in server.headers[1]} >= {"host", "content-type"}
    assert not {"cookie", "Cookie"} & set(server.headers[1])
    assert server.headers[0]["accept-encoding"] == "identity"


def test_a_response_that_repeats_the_key_is_masked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THE_KEY", "s3cret")
    with run_server(FakeServer(lambda w, e, b, n: send_response(e, 200, b"<p>" * 30 + b"s3cret"))) as wild:
        completion = complete(wild.url, api_key="THE_KEY")
    assert completion.error is not None
    assert "not JSON" in completion.error
    assert "s3" not in completion.error

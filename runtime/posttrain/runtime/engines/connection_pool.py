"""Pools the HTTP connections of the process, and limits the total time of a request.

httpx limits the time of each socket operation, so a server that sends one byte at a time could hold a request
forever. Here every operation gets only the time that is left until the deadline of its request.
"""

import functools
import os
import ssl
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from posttrain.runtime.environment_proxies import proxy_for
from posttrain.runtime.errors import StepError

# Common servers close idle connections after 5 seconds or later. A client that closes them earlier does not
# send a request on a connection that the server is closing.
_KEEPALIVE_SECONDS = 4.0
_WRITE_BYTES = 1 << 16
_request = threading.local()  # the deadline of the request that this thread sends


@contextmanager
def limit_request(seconds: float) -> Generator[None]:
    """Limit the total time of the socket operations of this thread. They raise httpx.TimeoutException."""
    _request.deadline = time.monotonic() + seconds
    try:
        yield
    finally:
        del _request.deadline


def _time_left(timed_out: type[httpcore.TimeoutException]) -> float:
    left = _request.deadline - time.monotonic()
    if left <= 0:
        raise timed_out
    return left


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _time_left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], _time_left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _time_left(httpcore.ConnectTimeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _DeadlineBackend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        _request.reused = False
        left = _time_left(httpcore.ConnectTimeout)
        return _DeadlineStream(super().connect_tcp(host, port, left, local_address, socket_options))


class _PooledTransport(httpx.HTTPTransport):
    """A transport of httpx whose connections obey the deadline. Its own pool takes no network backend."""

    def __init__(self, proxy: httpx.Proxy | None) -> None:
        trusted = _trusted_certificates()
        self._pool = httpcore.ConnectionPool(
            ssl_context=trusted,
            proxy=httpcore.Proxy(
                url=httpcore.URL(str(proxy.url)),
                auth=proxy.raw_auth,
                ssl_context=trusted if proxy.url.scheme == "https" else None,
            )
            if proxy
            else None,
            max_connections=None,  # the concurrency limiter of the endpoint decides
            keepalive_expiry=_KEEPALIVE_SECONDS,
            network_backend=_DeadlineBackend(),
        )


@functools.cache
def _trusted_certificates() -> ssl.SSLContext:
    """The certificates of the system and of SSL_CERT_FILE, not those of a Python package: a company's proxy
    has a certificate that only the system knows."""
    return ssl.create_default_context()


class _Transports:
    """One transport per proxy. A forked process starts with none: two processes cannot share a connection."""

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str | None, httpx.BaseTransport] = {}

    def get(self, proxy: str | None) -> httpx.BaseTransport:
        with self._lock:
            if proxy not in self._open:
                self._open[proxy] = _PooledTransport(_parse_proxy(proxy))
            return self._open[proxy]


_transports = _Transports()


def _parse_proxy(proxy: str | None) -> httpx.Proxy | None:
    if proxy is None:
        return None
    try:
        parsed = httpx.Proxy(proxy)
    except (ValueError, httpx.InvalidURL) as error:
        reason = "invalid URL" if isinstance(error, httpx.InvalidURL) else "unknown scheme"
    else:
        port = parsed.url.port or 0  # httpx does not check it
        if parsed.url.host and parsed.url.scheme in ("http", "https") and port < 65_536:
            return parsed
        reason = (
            "no host" if not parsed.url.host else "unsupported scheme" if port < 65_536 else "no such port"
        )
    # The URL can contain a password, so it is not shown.
    raise StepError(
        f"the proxy for endpoints in the environment cannot be used: {reason}",
        "set HTTP_PROXY, HTTPS_PROXY or ALL_PROXY to a URL such as http://HOST:PORT, or exempt the endpoint's"
        " host in NO_PROXY",
    )


@contextmanager
def send(request: httpx.Request) -> Generator[httpx.Response]:
    """Send a request on a pooled connection. Does not follow redirects, and stores no cookies.

    The server can close an idle connection just when a request is sent on it. Such a request is sent again,
    on another connection.
    """
    transport = _transports.get(proxy_for(str(request.url)))
    while True:
        _request.reused = True
        try:
            response = transport.handle_request(request)
            break
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if not _request.reused:
                raise
    try:
        yield response
    finally:
        response.close()

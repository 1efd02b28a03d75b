"""Sends one HTTP request with a JSON body, with limits on time and response size."""

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MAX_RESPONSE_BYTES = 8 * 1024 * 1024
_MAX_ERROR_BYTES = 2000


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    url: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class HttpError(Exception):
    """The server returned an error status."""

    def __init__(self, status: int, message: str, retry_after: float | None) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        # Seconds from the Retry-After header.
        self.retry_after = retry_after


def post_json(call: HttpRequest, seconds: float) -> Any:
    """Send a request and parse the JSON response. Raises TimeoutError if the response is not complete in
    time, even if the server still sends data."""
    from http.client import HTTPException

    connection, target = _open_connection(call.url, seconds)
    timed_out = threading.Event()
    sockets: list[Any] = []  # the connection drops its reference before the response is read

    def abort() -> None:
        timed_out.set()
        for connected in sockets:
            _shutdown_socket(connected)

    timer = threading.Timer(seconds, abort)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        sockets.append(connection.sock)
        headers = {"content-type": "application/json", "connection": "close", **call.headers}
        connection.request("POST", target, json.dumps(call.body).encode(), headers)
        response = connection.getresponse()
        data: bytes = response.read(_MAX_RESPONSE_BYTES + 1)
    except (OSError, HTTPException, ValueError, AttributeError) as error:
        if timed_out.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError from None
        raise OSError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
    finally:
        timer.cancel()
        connection.close()
    if timed_out.is_set():
        raise TimeoutError
    if len(data) > _MAX_RESPONSE_BYTES:
        raise ValueError(f"the response is larger than {_MAX_RESPONSE_BYTES >> 20} MiB")
    if not 200 <= response.status < 300:
        text = " ".join(data[:_MAX_ERROR_BYTES].decode("utf-8", "replace").split())
        raise HttpError(response.status, text, _parse_retry_after(response.headers.get("retry-after")))
    return _parse_json(data)


def _open_connection(url: str, seconds: float) -> tuple[Any, str]:
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return kind(parts.hostname or "", parts.port, timeout=seconds), target


def _shutdown_socket(connected: Any) -> None:
    """Shut down a socket, which wakes the thread that waits for it."""
    import contextlib
    import socket

    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"the response is not JSON: {data[:80]!r}") from None


def _parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header, which is a number of seconds or a date. Returns seconds."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if header is None:
        return None
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", header):
        return float(header)
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when.astimezone(UTC) - datetime.now(UTC)).total_seconds())

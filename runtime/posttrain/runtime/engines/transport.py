"""One HTTP request: JSON out, JSON back, within a time and a size."""

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
    """The server answers with another status than success."""

    def __init__(self, status: int, said: str, wait: float | None) -> None:
        super().__init__(f"{status}: {said}")
        self.status = status
        self.message = said
        # Seconds that the server wants to be left alone.
        self.retry_after = wait


def post_json(call: HttpRequest, seconds: float) -> Any:
    """The answer's JSON. TimeoutError when it is not whole in time, however slowly it drips."""
    from http.client import HTTPException

    connection, target = _open_connection(call.url, seconds)
    late = threading.Event()
    lines: list[Any] = []  # the connection lets go of its socket before the answer is read

    def cut() -> None:
        late.set()
        for line in lines:
            _shutdown_socket(line)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        lines.append(connection.sock)
        headers = {"content-type": "application/json", "connection": "close", **call.headers}
        connection.request("POST", target, json.dumps(call.body).encode(), headers)
        answer = connection.getresponse()
        data: bytes = answer.read(_MAX_RESPONSE_BYTES + 1)
    except (OSError, HTTPException, ValueError, AttributeError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError from None
        raise OSError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
    finally:
        timer.cancel()
        connection.close()
    if late.is_set():
        raise TimeoutError
    if len(data) > _MAX_RESPONSE_BYTES:
        raise ValueError(f"an answer of more than {_MAX_RESPONSE_BYTES >> 20} MiB")
    if not 200 <= answer.status < 300:
        said = " ".join(data[:_MAX_ERROR_BYTES].decode("utf-8", "replace").split())
        raise HttpError(answer.status, said, _parse_retry_after(answer.headers.get("retry-after")))
    return _parse_json(data)


def _open_connection(url: str, seconds: float) -> tuple[Any, str]:
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return kind(parts.hostname or "", parts.port, timeout=seconds), target


def _shutdown_socket(line: Any) -> None:
    """End a connection under the thread that waits for it."""
    import contextlib
    import socket

    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"an answer that is no JSON: {data[:80]!r}") from None


def _parse_retry_after(header: str | None) -> float | None:
    """What a server asks for by Retry-After: seconds, or a date."""
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

"""Sends one HTTP request with a JSON body, with limits on time and response size."""

import json
import re
from collections.abc import Iterable, Mapping
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
    headers = {"content-type": "application/json", **call.headers}
    return _exchange_json("POST", call.url, headers, json.dumps(call.body).encode(), seconds)


def get_json(url: str, headers: Mapping[str, str], seconds: float) -> Any:
    """Read a JSON document, with the limits and errors of `post_json`."""
    return _exchange_json("GET", url, headers, None, seconds)


def _exchange_json(
    method: str, url: str, headers: Mapping[str, str], content: bytes | None, seconds: float
) -> Any:
    import httpx

    from posttrain.runtime.engines.connection_pool import limit_request, send

    # Responses are not compressed: a small one could unpack to any size.
    headers = {"accept-encoding": "identity", **headers}
    try:
        request = httpx.Request(method, url, headers=headers, content=content)
        with limit_request(seconds), send(request) as response:
            data = _read_limited(response.iter_raw())
    except httpx.TimeoutException:
        raise TimeoutError from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(explain_error(error)) from None
    if not response.is_success:
        text = " ".join(data[:_MAX_ERROR_BYTES].decode("utf-8", "replace").split())
        raise HttpError(response.status_code, text, _parse_retry_after(response.headers.get("retry-after")))
    return _parse_json(data)


def _read_limited(chunks: Iterable[bytes]) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > _MAX_RESPONSE_BYTES:
            raise ValueError(f"the response is larger than {_MAX_RESPONSE_BYTES >> 20} MiB")
    return bytes(data)


def explain_error(error: BaseException) -> str:
    """Describe a failed connection by its first cause."""
    import ssl

    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not trusted: {error.verify_message}; if a private authority signed"
            " it, set SSL_CERT_FILE to a file with the authority's certificate"
        )
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {reason}; if the server does not use TLS, write its base_url as http://"
    return reason


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"the response is not JSON: {data[:_MAX_ERROR_BYTES]!r}") from None


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

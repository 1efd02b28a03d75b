"""Sends one HTTP request with a JSON body, with limits on time and response size."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.connection_errors import explain_connection_error, parse_retry_after

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
        raise OSError(explain_connection_error(error, "write its base_url as http://")) from None
    if not response.is_success:
        text = " ".join(data[:_MAX_ERROR_BYTES].decode("utf-8", "replace").split())
        raise HttpError(response.status_code, text, parse_retry_after(response.headers.get("retry-after")))
    return _parse_json(data)


def _read_limited(chunks: Iterable[bytes]) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > _MAX_RESPONSE_BYTES:
            raise ValueError(f"the response is larger than {_MAX_RESPONSE_BYTES >> 20} MiB")
    return bytes(data)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"the response is not JSON: {data[:_MAX_ERROR_BYTES]!r}") from None

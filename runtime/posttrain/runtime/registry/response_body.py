"""Reads small bodies of responses."""

import httpx


def read_start(response: httpx.Response, limit: int) -> bytes:
    """The start of a body: servers can send more than the memory holds."""
    body = bytearray()
    for piece in response.iter_raw():
        body += piece
        if len(body) > limit:
            break
    return bytes(body[:limit])

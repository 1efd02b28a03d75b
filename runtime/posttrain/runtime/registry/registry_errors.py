"""Errors of a registry, in the registry's words."""

import json
from typing import Any, cast

from posttrain.runtime.errors import StepError

_MAX_TEXT = 500
_DENIED = (401, 403)


class RegistryError(StepError):
    """A registry did not do what it was asked for."""

    def __init__(
        self,
        message: str,
        advice: str = "",
        *,
        status: int | None = None,
        code: str = "",
        retriable: bool = False,
    ) -> None:
        super().__init__(message, advice, retriable=retriable)
        # The HTTP status and the error code of the registry, such as MANIFEST_UNKNOWN.
        self.status = status
        self.code = code

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_denied(self) -> bool:
        return self.status in _DENIED


class ContentError(RegistryError):
    """The content of a registry does not match its digest or its size, or is no artifact."""


def refusal(host: str, what: str, status: int, body: bytes, note: str = "") -> RegistryError:
    """The error for a response with an error status. `note` is added to the advice."""
    code, text = error_text(body)
    words = f"{text} (status {status})" if text else f"status {status}"
    advice = _advice(host, status)
    return RegistryError(
        f"{host} refused {what}: {words}",
        f"{note}; {advice}" if note else advice,
        status=status,
        code=code,
        retriable=status in RETRIED_STATUSES,
    )


# Request timeout, rate limit, and failures of the server or of a proxy.
RETRIED_STATUSES = (408, 429, 500, 502, 503, 504)


def _advice(host: str, status: int) -> str:
    if status in _DENIED:
        return f"run `docker login {host}` with an account that may do this"
    if status == 404:
        return "check the name, and the tag or the digest; run `docker login` for a private repository"
    if status in (405, 415, 400):
        return "the registry does not support this; use one that supports OCI artifacts"
    if status == 413:
        return "the registry, or a proxy before it, limits the size of uploads"
    return "check the status of the registry, and try again"


def error_text(body: bytes) -> tuple[str, str]:
    """The code and the text of the errors in a response; empty if it has none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "", _printable(body.decode("utf-8", "replace")) if b"<" not in body else ""
    errors = cast(dict[str, Any], found).get("errors") if isinstance(found, dict) else None
    values = cast(list[Any], errors) if isinstance(errors, list) else []
    listed = [cast(dict[str, Any], one) for one in values if isinstance(one, dict)]
    texts = [_one_error(one) for one in listed]
    code = str(listed[0].get("code", "")) if listed else ""
    return code[:100], _printable("; ".join(filter(None, texts)))


def _one_error(error: dict[str, Any]) -> str:
    code, message, detail = (error.get(name) for name in ("code", "message", "detail"))
    text = ": ".join(str(part) for part in (code, message) if part)
    return f"{text} ({json.dumps(detail)})" if detail else text


def _printable(text: str) -> str:
    text = " ".join(text.split())
    return "".join(char if char.isprintable() else "?" for char in text[:_MAX_TEXT])

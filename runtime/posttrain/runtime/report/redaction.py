"""Redacts the values of secrets in report data, as the last line of defense."""

from collections.abc import Mapping
from typing import Any

PLACEHOLDER = "[secret]"


def redact(value: Any, secrets: tuple[str, ...]) -> Any:
    """The value with every secret replaced, including those in keys."""
    if not secrets:
        return value
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, PLACEHOLDER)
            return value
        case Mapping():
            return {redact(key, secrets): redact(item, secrets) for key, item in value.items()}
        case list() | tuple():
            return [redact(item, secrets) for item in value]
        case _:
            return value

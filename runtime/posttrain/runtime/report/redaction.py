"""Redacts the values of secrets in report data, as the last line of defense."""

from collections.abc import Mapping
from typing import Any

PLACEHOLDER = "[secret]"
# Redacting shorter values would mangle ordinary words.
_MIN_LENGTH = 6


def secret_values(names: set[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the named environment variables, the longest first."""
    found = {environment.get(name, "").strip() for name in names}
    return tuple(sorted((value for value in found if len(value) >= _MIN_LENGTH), key=len, reverse=True))


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

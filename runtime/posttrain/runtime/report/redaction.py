"""Takes the values of secrets out of what is about to be shown: the last guard, not the first."""

from collections.abc import Mapping
from typing import Any

PLACEHOLDER = "[secret]"
# A shorter value is no secret, and would tear ordinary words apart.
_MIN_LENGTH = 6


def secret_values(names: set[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values that the named variables have here, the longest first."""
    found = {environment.get(name, "").strip() for name in names}
    return tuple(sorted((value for value in found if len(value) >= _MIN_LENGTH), key=len, reverse=True))


def redact(value: Any, secrets: tuple[str, ...]) -> Any:
    """The same value with every secret in it replaced, in keys as well."""
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

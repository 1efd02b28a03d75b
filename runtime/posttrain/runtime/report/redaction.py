"""Takes the values of secrets out of what is about to be shown: the last guard, not the first."""

from collections.abc import Mapping
from typing import Any

HIDDEN = "[secret]"
# A shorter value is no secret, and would tear ordinary words apart.
_SHORTEST = 6


def values_of(names: set[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values that the named variables have here, the longest first."""
    found = {environment.get(name, "").strip() for name in names}
    return tuple(sorted((value for value in found if len(value) >= _SHORTEST), key=len, reverse=True))


def hidden(value: Any, secrets: tuple[str, ...]) -> Any:
    """The same value with every secret in it replaced, in keys as well."""
    if not secrets:
        return value
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, HIDDEN)
            return value
        case Mapping():
            return {hidden(key, secrets): hidden(item, secrets) for key, item in value.items()}
        case list() | tuple():
            return [hidden(item, secrets) for item in value]
        case _:
            return value

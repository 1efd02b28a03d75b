"""JSON as a model writes it: the whole text, or a value somewhere in it."""

import json
import re
from typing import Any, Literal

Where = Literal["whole", "first", "last"]
WHERE_DESCRIPTION = (
    "Whether the text must be nothing but JSON, or holds it: the first or the last object or list in it."
)
_OPENING = re.compile(r"[{\[]")
_MAX_ATTEMPTS = 64
_MAX_CHARACTERS = 1_000_000


class JsonNotFoundError(ValueError):
    """There is no JSON value where one was looked for."""


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def read_json(text: str, where: Where) -> Any:
    """The value. JsonNotFoundError says why there is none."""
    if len(text) > _MAX_CHARACTERS:
        raise JsonNotFoundError(f"the text is longer than {_MAX_CHARACTERS:,} characters")
    try:
        if where == "whole":
            return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise JsonNotFoundError(_error_reason(error)) from None
    found = _find_values(text, only_first=where == "first")
    if not found:
        raise JsonNotFoundError("no JSON object or list is in the text")
    return found[-1]


def _find_values(text: str, *, only_first: bool) -> list[Any]:
    found: list[Any] = []
    at = 0
    for _ in range(_MAX_ATTEMPTS):
        opening = _OPENING.search(text, at)
        if opening is None or (found and only_first):
            break
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
            found.append(value)
        except (ValueError, RecursionError):
            at = opening.start() + 1
    return found


def _error_reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)

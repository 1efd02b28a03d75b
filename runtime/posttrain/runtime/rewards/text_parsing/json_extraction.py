"""Extracts JSON from a model's output: the whole text, or a value somewhere in it."""

import json
import re
from typing import Any, Literal

Where = Literal["whole", "first", "last"]
WHERE_DESCRIPTION = (
    "Where the JSON is: `whole` requires that the text is only JSON, `first` and `last` search for the first"
    " or the last object or list in the text."
)
_OPENING = re.compile(r"[{\[]")
_MAX_ATTEMPTS = 64
_MAX_CHARACTERS = 1_000_000


class JsonNotFoundError(ValueError):
    """The text has no JSON value."""


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def read_json(text: str, where: Where) -> Any:
    """Parse the JSON value in a text. Raises JsonNotFoundError with the reason if there is none."""
    if len(text) > _MAX_CHARACTERS:
        raise JsonNotFoundError(f"the text is longer than {_MAX_CHARACTERS:,} characters")
    try:
        if where == "whole":
            return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise JsonNotFoundError(_error_reason(error)) from None
    values = _find_values(text, only_first=where == "first")
    if not values:
        raise JsonNotFoundError("the text has no JSON object or list")
    return values[-1]


def _find_values(text: str, *, only_first: bool) -> list[Any]:
    values: list[Any] = []
    at = 0
    for _ in range(_MAX_ATTEMPTS):
        opening = _OPENING.search(text, at)
        if opening is None or (values and only_first):
            break
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
            values.append(value)
        except (ValueError, RecursionError):
            at = opening.start() + 1
    return values


def _error_reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)

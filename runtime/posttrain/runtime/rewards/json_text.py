"""JSON as a model writes it: the whole text, or a value somewhere in it."""

import json
import re
from typing import Any, Literal

Where = Literal["whole", "first", "last"]
WHERE = "Whether the text must be nothing but JSON, or holds it: the first or the last object or list in it."
_OPENING = re.compile(r"[{\[]")
_TRIES = 64
_LONGEST = 1_000_000


class NoJson(ValueError):
    """There is no JSON value where one was looked for."""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def read_json(text: str, where: Where) -> Any:
    """The value. NoJson says why there is none."""
    if len(text) > _LONGEST:
        raise NoJson(f"the text is longer than {_LONGEST:,} characters")
    try:
        if where == "whole":
            return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise NoJson(_said(error)) from None
    found = _values(text, only_first=where == "first")
    if not found:
        raise NoJson("no JSON object or list is in the text")
    return found[-1]


def _values(text: str, *, only_first: bool) -> list[Any]:
    found: list[Any] = []
    at = 0
    for _ in range(_TRIES):
        opening = _OPENING.search(text, at)
        if opening is None or (found and only_first):
            break
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
            found.append(value)
        except (ValueError, RecursionError):
            at = opening.start() + 1
    return found


def _said(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)

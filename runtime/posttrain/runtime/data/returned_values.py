"""Checks values that a function of the user returns against the types of their columns, unconverted."""

import json
import math
from typing import Any, cast

from posttrain.spec.column_types import Type

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_SHOWN = 80


def value_problem(value: Any, type: Type) -> str | None:
    """Why a value does not fit the type of its column; None if it fits. Null fits every column."""
    if value is None or _fits(value, type):
        return _text_problem(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}, which is not finite,"
    if isinstance(value, int) and not isinstance(value, bool) and type == "integer":
        return f"{value}, which has more than 64 bits,"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


def _fits(value: Any, type: Type) -> bool:
    match type:
        case "text":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and _LOWEST <= value <= _HIGHEST
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case "messages":
            turns = cast(list[Any], value) if isinstance(value, list) else [None]
            return all(isinstance(turn, dict) and isinstance(turn.get("role"), str) for turn in turns)
        case "any":
            return True
        case _:  # list<T>
            items = cast(list[Any], value) if isinstance(value, list) else None
            return items is not None and all(item is None or _fits(item, type[5:-1]) for item in items)


def _text_problem(value: Any) -> str | None:
    """Why a value cannot be stored: text that UTF-8 cannot encode, or a number that JSON cannot hold."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "text with characters that UTF-8 cannot encode"
    except ValueError:
        return "a number that is not finite"
    return None

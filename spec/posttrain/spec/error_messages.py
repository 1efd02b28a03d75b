"""The messages of values that are out of bounds, by pydantic's type of error."""

from collections.abc import Mapping
from typing import Any

_BOUNDS = {
    "greater_than_equal": ("ge", "must be at least"),
    "greater_than": ("gt", "must be above"),
    "less_than_equal": ("le", "must be at most"),
    "less_than": ("lt", "must be below"),
}
_SIZES = ("string_too_short", "string_too_long", "too_short", "too_long")


def error_message(type_: str, context: Mapping[str, Any]) -> str | None:
    """The message of an invalid value; None for a value of the wrong type."""
    if type_ == "finite_number":
        return "must be finite"
    if type_ in _BOUNDS:
        name, words = _BOUNDS[type_]
        return f"{words} {_format_number(context[name])}"
    if type_ in _SIZES:
        return _size_message(type_, context)
    return None


def _size_message(type_: str, context: Mapping[str, Any]) -> str:
    what = "characters" if type_.startswith("string") else "items"
    size = context.get("actual_length")
    if type_.endswith("too_short"):
        found = f", but has {size or 'none'}" if size is not None else ""
        return f"must have at least {_plural(context['min_length'], what)}{found}"
    found = f", but has {size}" if size is not None else ""
    return f"must have at most {_plural(context['max_length'], what)}{found}"


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e16 else str(value)


def _plural(number: int, what: str) -> str:
    return f"{number} {what[:-1] if number == 1 else what}"

"""Bounds of values, and the messages for values outside them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from posttrain.spec.record import record


@record(kw_only=True)
class Limits:
    """Bounds of a number, or of the length and pattern of a text or list."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


def compile_pattern(limits: Limits) -> "re.Pattern[str] | None":
    """The compiled pattern. In Python `$` also matches before a final line break; here it does not."""
    return None if limits.pattern is None else re.compile(re.sub(r"\$\Z", r"\\Z", limits.pattern))


def limit_violations(value: Any, limits: Limits) -> Iterable[str]:
    """A message for each bound that the value violates."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if limits.ge is not None and not value >= limits.ge:
            yield f"must be at least {limits.ge}"
        if limits.gt is not None and not value > limits.gt:
            yield f"must be above {limits.gt}"
        if limits.le is not None and not value <= limits.le:
            yield f"must be at most {limits.le}"
        if limits.lt is not None and not value < limits.lt:
            yield f"must be below {limits.lt}"
    if isinstance(value, str | list | tuple | dict):
        size = len(cast(Sequence[Any], value))
        what = "characters" if isinstance(value, str) else "items"
        if limits.min_length is not None and size < limits.min_length:
            yield f"must have at least {_plural(limits.min_length, what)}, but has {size or 'none'}"
        if limits.max_length is not None and size > limits.max_length:
            yield f"must have at most {_plural(limits.max_length, what)}, but has {size}"


def _plural(number: int, what: str) -> str:
    return f"{number} {what[:-1] if number == 1 else what}"

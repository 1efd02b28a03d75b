"""Formats numbers, times and sizes as text."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

DASH = "\u2013"


def finite_or_none(value: Any) -> float | None:
    """The value as a finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def format_number(value: Any) -> str:
    """A number with four significant digits."""
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    found = finite_or_none(value)
    if found is None:
        return DASH
    if found and not 1e-3 <= abs(found) < 1e5:
        return f"{found:.3g}"
    return f"{found:.4g}"


def format_decimals(value: Any) -> str:
    """A number with three decimals, for metrics in a column."""
    found = finite_or_none(value)
    return format_number(value) if found is None or abs(found) >= 1000 else f"{found:.3f}"


def format_signed(value: Any) -> str:
    found = finite_or_none(value)
    return format_number(value) if found is None else f"{found:+.3f}"


def format_interval(low: Any, high: Any) -> str:
    """The ends of an interval."""
    known = finite_or_none(low) is not None and finite_or_none(high) is not None
    return f"{format_decimals(low)} \u2013 {format_decimals(high)}" if known else DASH


def format_signed_interval(low: Any, high: Any) -> str:
    """The ends of an interval of differences."""
    known = finite_or_none(low) is not None and finite_or_none(high) is not None
    return f"{format_signed(low)} to {format_signed(high)}" if known else DASH


def format_count(value: Any) -> str:
    found = finite_or_none(value)
    return DASH if found is None else f"{found:,.0f}"


def format_percent(value: Any) -> str:
    found = finite_or_none(value)
    return DASH if found is None else f"{found:.1%}"


def format_duration(seconds: Any) -> str:
    """A duration with its units."""
    found = finite_or_none(seconds)
    if found is None or found < 0:
        return DASH
    if found < 60:
        return f"{found:.1f} s"
    minutes, rest = divmod(round(found), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def format_short_duration(seconds: Any) -> str:
    """A duration in a few characters."""
    found = finite_or_none(seconds)
    if found is None or found < 0:
        return DASH
    for unit, length, until in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 360_000)):
        if found < until:
            return f"{found / length:.2g} {unit}" if found >= 1 else f"{found:.1f} s"
    return f"{found / 86_400:.0f} d"


def format_cost(dollars: float) -> str:
    """Dollars: cents, or two digits of less than a cent."""
    if dollars >= 1000:
        return f"${dollars:,.0f}"
    return f"${dollars:.2f}" if dollars >= 0.01 or dollars <= 0 else f"${dollars:.2g}"


def format_timestamp(at: Any) -> str:
    """A point in time, in UTC."""
    found = finite_or_none(at)
    if found is None:
        return DASH
    try:
        return datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return DASH


def format_size(length: Any) -> str:
    """A number of bytes."""
    found = finite_or_none(length)
    if found is None:
        return DASH
    for unit in ("bytes", "kB", "MB", "GB"):
        if found < 1000:
            return f"{found:.0f} {unit}" if unit == "bytes" else f"{found:.3g} {unit}"
        found /= 1000
    return f"{found:.3g} TB"


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def join_words(words: list[str], most: int = 3) -> str:
    """A list in a sentence, shortened to the first `most` words."""
    if len(words) > most + 1:
        words = [*words[:most], f"{len(words) - most:,} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def format_value(value: Any) -> str:
    """Any JSON value on one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return format_number(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """The value when it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}

"""Numbers, times and sizes in words."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

NOTHING = "\u2013"


def finite(value: Any) -> float | None:
    """A number that can be drawn; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def number(value: Any) -> str:
    """A figure with four digits that count."""
    if isinstance(value, float) and not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    found = finite(value)
    if found is None:
        return NOTHING
    if found and not 1e-3 <= abs(found) < 1e5:
        return f"{found:.3g}"
    return f"{found:.4g}"


def decimals(value: Any) -> str:
    """A figure with three decimals, for metrics that stand below each other."""
    found = finite(value)
    return number(value) if found is None or abs(found) >= 1000 else f"{found:.3f}"


def signed(value: Any) -> str:
    found = finite(value)
    return number(value) if found is None else f"{found:+.3f}"


def between(low: Any, high: Any) -> str:
    """The ends of an interval."""
    known = finite(low) is not None and finite(high) is not None
    return f"{decimals(low)} \u2013 {decimals(high)}" if known else NOTHING


def between_signed(low: Any, high: Any) -> str:
    """The ends of an interval of differences."""
    known = finite(low) is not None and finite(high) is not None
    return f"{signed(low)} to {signed(high)}" if known else NOTHING


def count(value: Any) -> str:
    found = finite(value)
    return NOTHING if found is None else f"{found:,.0f}"


def share(value: Any) -> str:
    found = finite(value)
    return NOTHING if found is None else f"{found:.1%}"


def duration(seconds: Any) -> str:
    """A length of time as people say it."""
    found = finite(seconds)
    if found is None or found < 0:
        return NOTHING
    if found < 60:
        return f"{found:.1f} s"
    minutes, rest = divmod(round(found), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def brief(seconds: Any) -> str:
    """A length of time in a few letters."""
    found = finite(seconds)
    if found is None or found < 0:
        return NOTHING
    for unit, length, until in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 360_000)):
        if found < until:
            return f"{found / length:.2g} {unit}" if found >= 1 else f"{found:.1f} s"
    return f"{found / 86_400:.0f} d"


def moment(at: Any) -> str:
    """A point in time, in UTC."""
    found = finite(at)
    if found is None:
        return NOTHING
    try:
        return datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return NOTHING


def size(length: Any) -> str:
    """A number of bytes."""
    found = finite(length)
    if found is None:
        return NOTHING
    for unit in ("bytes", "kB", "MB", "GB"):
        if found < 1000:
            return f"{found:.0f} {unit}" if unit == "bytes" else f"{found:.3g} {unit}"
        found /= 1000
    return f"{found:.3g} TB"


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def listed(words: list[str], most: int = 3) -> str:
    """Words in a sentence, the first few of many."""
    if len(words) > most + 1:
        words = [*words[:most], f"{len(words) - most:,} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def value_text(value: Any) -> str:
    """Any JSON value on one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def table_of(value: Any) -> Mapping[str, Any]:
    """A mapping from a record that should hold one; empty when it does not."""
    return value if isinstance(value, Mapping) else {}

"""Axes: map a range of values to positions on a line, with ticks at round numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_VALUE = 1e300


@dataclass(frozen=True)
class Scale:
    """Maps `low` .. `high` to `start` .. `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def padded_range(values: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of finite values plus a margin; never empty."""
    found = list(values) or [0.0, 1.0]
    # Clamped below the largest float, so that no sum or difference overflows.
    low, high = (max(-_MAX_VALUE, min(_MAX_VALUE, end)) for end in (min(found), max(found)))
    room = (high - low) * margin or abs(high) * margin or 1.0
    return low - room, high + room


def ticks(low: float, high: float, count: int, *, whole: bool = False) -> list[float]:
    """About `count` round numbers within a range, spaced by 1, 2 or 5 times a power of ten.

    `whole` leaves out fractions, for an axis that counts.
    """
    if not (high > low and math.isfinite(high - low)):
        return []
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    distance = min((power * m for m in (1, 2, 5, 10)), key=lambda d: abs(math.log(d / rough)))
    distance = max(1.0, distance) if whole else distance
    first, last = math.ceil(low / distance - 1e-9), math.floor(high / distance + 1e-9)
    return [round(n * distance, 12) if distance > 1e-9 else n * distance for n in range(first, last + 1)]


def tick_text(value: float) -> str:
    """The shortest text for the number of a tick."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, _, exponent = f"{value:.3g}".partition("e")
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return f"{value:.5g}"


def count_text(value: float) -> str:
    """A count in a few characters: 950, 12k, 3.4M."""
    for size, shown, unit in ((1e12, 1e12, "T"), (1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= size:
            return f"{value / shown:.4g}{unit}"
    return f"{value:.6g}"

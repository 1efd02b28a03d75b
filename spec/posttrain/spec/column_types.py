"""The types of columns and reward nodes, and intervals of numbers."""

import math
from typing import Literal

from posttrain.spec.record import record

# The type of a column or node, as text: text, integer, number, boolean, messages, list<T> or any.
Type = str

SCALAR_TYPES = ("text", "integer", "number", "boolean")
Columns = dict[str, Type]


def is_type(name: str) -> bool:
    if name.startswith("list<") and name.endswith(">"):
        return is_type(name[5:-1])
    return name in (*SCALAR_TYPES, "messages", "any")


class UnknownType(ValueError):
    """An unknown column type, with the path at which it is named."""

    def __init__(self, type: str, path: tuple[str, ...]) -> None:
        super().__init__(f"is not a column type (column `{path[-1]}`)")
        self.path = path
        self.legal = ("text", "integer", "number", "boolean", "messages", "any")


def check_column_types(columns: Columns | None) -> None:
    """Raise UnknownType if a column has an unknown type."""
    for name, type in (columns or {}).items():
        if not is_type(type):
            raise UnknownType(type, (name,))


def is_assignable(expected: Type, actual: Type) -> bool:
    """Whether a value of type `actual` is accepted where `expected` is required."""
    if "any" in (expected, actual) or expected == actual:
        return True
    if expected.startswith("list<") and actual.startswith("list<"):
        return is_assignable(expected[5:-1], actual[5:-1])
    return expected == "number" and actual in ("integer", "boolean")


@record
class Interval:
    """The numbers from `low` to `high`, inclusive."""

    low: float
    high: float

    @staticmethod
    def unbounded() -> "Interval":
        return Interval(-math.inf, math.inf)

    @property
    def constant(self) -> bool:
        return self.low == self.high

    def plus(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def times(self, other: "Interval") -> "Interval":
        corners = [_bound_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(corners), max(corners))

    def join(self, other: "Interval") -> "Interval":
        """The smallest interval that contains both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __str__(self) -> str:
        return f"{_format_bound(self.low)} .. {_format_bound(self.high)}"


def _bound_product(a: float, b: float) -> float:
    # 0 * inf is nan, but the product with a bound of zero is zero even if the other side is unbounded.
    return 0.0 if a == 0 or b == 0 else a * b


def _format_bound(value: float) -> str:
    return f"{value:+g}" if value else "0"


GateEffect = Literal["pass", "fail", "inconclusive"]

"""Queries of RFC 9535 (JSONPath) as data."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Slice:
    start: int | None
    end: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Wildcard:
    """The wildcard."""


@dataclass(frozen=True, slots=True)
class Filter:
    test: "Test"


Selector = str | int | Slice | Wildcard | Filter


@dataclass(frozen=True, slots=True)
class Segment:
    selectors: tuple[Selector, ...]
    descendant: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """From the root, or (`@`) from the value that a filter looks at."""

    segments: tuple[Segment, ...]
    from_root: bool = True

    @property
    def singular(self) -> bool:
        """Whether it can find one value at the most."""
        return all(
            not segment.descendant
            and len(segment.selectors) == 1
            and isinstance(segment.selectors[0], str | int)
            for segment in self.segments
        )


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: "Operand"
    right: "Operand"


@dataclass(frozen=True, slots=True)
class LogicalExpression:
    """`all` or `any` of the parts, or `not` the only one."""

    kind: str
    parts: tuple["Test", ...]


Operand = Literal | Query | Function | LogicalExpression | Comparison
Test = LogicalExpression | Comparison | Query | Function
# What a function takes and gives: v a value, n the nodes of a query, t a truth.
FUNCTIONS = {
    "length": ("v", "v"),
    "count": ("n", "v"),
    "match": ("vv", "t"),
    "search": ("vv", "t"),
    "value": ("n", "v"),
}

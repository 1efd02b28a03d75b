"""The syntax tree of JSONPath queries (RFC 9535)."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Slice:
    start: int | None
    end: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Wildcard:
    """The wildcard selector `*`."""


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
    """A query from the root (`$`), or from the current value of a filter (`@`)."""

    segments: tuple[Segment, ...]
    from_root: bool = True

    @property
    def singular(self) -> bool:
        """Whether the query finds at most one value."""
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
    """AND (`all`) or OR (`any`) of the parts, or NOT (`not`) of a single part."""

    kind: str
    parts: tuple["Test", ...]


Operand = Literal | Query | Function | LogicalExpression | Comparison
Test = LogicalExpression | Comparison | Query | Function
# The argument types and the result type of each function: v is a value, n a node list, t a truth value.
FUNCTIONS = {
    "length": ("v", "v"),
    "count": ("n", "v"),
    "match": ("vv", "t"),
    "search": ("vv", "t"),
    "value": ("n", "v"),
}

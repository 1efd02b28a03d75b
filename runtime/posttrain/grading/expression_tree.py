"""The expression tree of a parsed answer. Its nodes are frozen, hashable and contain no executable code."""

import re
from dataclasses import dataclass
from fractions import Fraction
from types import UnionType


class ParseError(Exception):
    """The text is not mathematics in a notation that the parser supports."""


class UnsupportedNotation(ParseError):
    """The text is mathematics in a notation that the parser does not support."""


class TooLarge(Exception):
    """The text, or a number in it, exceeds a limit. The message names the limit."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number literal.

    decimal_places: the number of decimals in the text, None for an integer.
    truncated: whether dots follow, as in `0.333...`.
    """

    value: Fraction
    decimal_places: int | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """pi, e, i or infinity."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    terms: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Product:
    factors: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Quotient:
    numerator: "Node"
    denominator: "Node"


@dataclass(frozen=True, slots=True)
class Power:
    base: "Node"
    exponent: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """A known function, or an unknown one such as f(x), whose name starts with `:`."""

    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Sign:
    """Plus or minus: `upper` is the upper sign (+1 for \\pm, -1 for \\mp)."""

    upper: int


@dataclass(frozen=True, slots=True)
class Percent:
    value: "Node"


@dataclass(frozen=True, slots=True)
class Quantity:
    value: "Node"
    unit: str


@dataclass(frozen=True, slots=True)
class BasedNumber:
    """Digits with a subscript that states their base."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Group:
    """Brackets with their items: a tuple, an interval, a list or a set, which depends on the context."""

    opening: str
    items: tuple["Node", ...]
    closing: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Items without brackets. `conjunction` is `,`, `and` or `or`."""

    items: tuple["Node", ...]
    conjunction: str


@dataclass(frozen=True, slots=True)
class Dots:
    """The ellipsis of a sequence."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A chain: sides[0] operators[0] sides[1] operators[1] ..."""

    sides: tuple["Node", ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Congruence:
    left: "Node"
    right: "Node"
    modulus: "Node"


@dataclass(frozen=True, slots=True)
class SetOperation:
    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class NamedSet:
    """R, Z, Q, N, C, or empty."""

    name: str


@dataclass(frozen=True, slots=True)
class Builder:
    """{element | condition}."""

    element: "Node"
    condition: "Node"


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[tuple["Node", ...], ...]


@dataclass(frozen=True, slots=True)
class Cases:
    """A piecewise function: pairs of a value and its condition."""

    branches: tuple[tuple["Node", "Node"], ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Text:
    words: str


Scalar = Number | Constant | Symbol | Sum | Product | Quotient | Power | Call | Sign | BasedNumber
Node = (
    Scalar
    | Percent
    | Quantity
    | Group
    | Listing
    | Dots
    | Relation
    | Congruence
    | SetOperation
    | NamedSet
    | Builder
    | Matrix
    | Cases
    | Ratio
    | Text
)

LETTER = re.compile(r"[A-Za-z]+")
MINUS_ONE = Number(Fraction(-1))
PI = Constant("pi")
DEGREE = Quotient(PI, Number(Fraction(180)))


def negate(node: Node) -> Node:
    if isinstance(node, Number):
        return Number(-node.value, node.decimal_places, node.truncated)
    return Product((MINUS_ONE, node))


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Sum(parts) | Product(parts) | Call(_, parts) | Ratio(parts):
            return parts
        case Quotient(left, right) | Power(left, right) | SetOperation(_, left, right):
            return (left, right)
        case Builder(left, right):
            return (left, right)
        case Percent(value) | Quantity(value, _):
            return (value,)
        case Group(_, items, _) | Listing(items, _) | Relation(items, _):
            return items
        case Congruence(left, right, modulus):
            return (left, right, modulus)
        case Matrix(rows) | Cases(rows):
            return tuple(item for row in rows for item in row)
        case _:
            return ()


BOUND_PREFIX = "~"  # the prefix of variables that a sum, a product, an integral or a limit binds


def symbols(node: Node) -> frozenset[str]:
    """The names of the free variables."""
    if isinstance(node, Symbol):
        stem, _, index = node.name.partition("_")
        if BOUND_PREFIX in index:  # in a_{n-k} with a bound k, only n is free
            return frozenset(LETTER.findall(index))
        return frozenset() if stem.startswith(BOUND_PREFIX) else frozenset((node.name,))
    return frozenset[str]().union(*(symbols(child) for child in children(node)))


def contains_node(node: Node, kind: type | UnionType) -> bool:
    return isinstance(node, kind) or any(contains_node(child, kind) for child in children(node))


def contains_call(node: Node, names: frozenset[str]) -> bool:
    matches = isinstance(node, Call) and node.name in names
    return matches or any(contains_call(child, names) for child in children(node))

"""Maps the leaves of a tree."""

from collections.abc import Callable
from dataclasses import replace

from posttrain.grading.expression_tree import (
    Builder,
    Call,
    Cases,
    Congruence,
    Group,
    Listing,
    Matrix,
    Node,
    Percent,
    Power,
    Product,
    Quantity,
    Quotient,
    Ratio,
    Relation,
    SetOperation,
    Sum,
)

LeafFunction = Callable[[Node], Node]


def map_leaves(node: Node, function: LeafFunction) -> Node:
    """Replace each leaf by the function's result, from left to right."""
    match node:
        case Sum(parts) | Product(parts) | Ratio(parts):
            return type(node)(tuple(map_leaves(part, function) for part in parts))
        case Quotient(left, right) | Power(left, right):
            return type(node)(map_leaves(left, function), map_leaves(right, function))
        case Call(name, arguments):
            return Call(name, tuple(map_leaves(argument, function) for argument in arguments))
        case Percent() | Quantity():
            return replace(node, value=map_leaves(node.value, function))
        case _:
            return _map_structure(node, function)


def _map_structure(node: Node, function: LeafFunction) -> Node:
    def each(items: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(map_leaves(item, function) for item in items)

    match node:
        case SetOperation(operator, left, right):
            return SetOperation(operator, *each((left, right)))
        case Builder(element, condition):
            return Builder(*each((element, condition)))
        case Congruence(left, right, modulus):
            return Congruence(*each((left, right, modulus)))
        case Listing(items, conjunction):
            return Listing(each(items), conjunction)
        case Group(opening, items, closing):
            return Group(opening, each(items), closing)
        case Relation(sides, operators):
            return Relation(each(sides), operators)
        case Matrix(rows):
            return Matrix(tuple(each(row) for row in rows))
        case Cases(branches):
            return Cases(
                tuple((map_leaves(value, function), map_leaves(at, function)) for value, at in branches)
            )
        case _:
            return function(node)

"""A tree with its leaves changed."""

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


def map_leaves(node: Node, change: LeafFunction) -> Node:
    """From left to right."""
    match node:
        case Sum(parts) | Product(parts) | Ratio(parts):
            return type(node)(tuple(map_leaves(part, change) for part in parts))
        case Quotient(left, right) | Power(left, right):
            return type(node)(map_leaves(left, change), map_leaves(right, change))
        case Call(name, arguments):
            return Call(name, tuple(map_leaves(argument, change) for argument in arguments))
        case Percent() | Quantity():
            return replace(node, value=map_leaves(node.value, change))
        case _:
            return _map_structure(node, change)


def _map_structure(node: Node, change: LeafFunction) -> Node:
    def each(items: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(map_leaves(item, change) for item in items)

    match node:
        case SetOperation(operator, left, right):
            return SetOperation(operator, *each((left, right)))
        case Builder(element, condition):
            return Builder(*each((element, condition)))
        case Congruence(left, right, modulus):
            return Congruence(*each((left, right, modulus)))
        case Listing(items, joint):
            return Listing(each(items), joint)
        case Group(opening, items, closing):
            return Group(opening, each(items), closing)
        case Relation(sides, operators):
            return Relation(each(sides), operators)
        case Matrix(rows):
            return Matrix(tuple(each(row) for row in rows))
        case Cases(branches):
            return Cases(tuple((map_leaves(value, change), map_leaves(at, change)) for value, at in branches))
        case _:
            return change(node)

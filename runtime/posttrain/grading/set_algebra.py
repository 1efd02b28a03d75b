"""Compares unions, intersections and differences of named sets by truth tables of membership."""

from collections.abc import Callable
from itertools import product

from posttrain.grading.expression_tree import Node, SetOperation, Symbol

MAX_NAMES = 6
OPERATIONS: dict[str, Callable[[bool, bool], bool]] = {
    "union": lambda one, two: one or two,
    "intersection": lambda one, two: one and two,
    "difference": lambda one, two: one and not two,
}


def is_same_set_expression(left: Node, right: Node) -> bool | None:
    """Whether two expressions of named sets are equal. None when they contain anything else."""
    names = _set_names(left), _set_names(right)
    if names[0] is None or names[1] is None:
        return None
    all_names = sorted(names[0] | names[1])
    if len(all_names) > MAX_NAMES:
        return None
    cases = (
        dict(zip(all_names, case, strict=True)) for case in product((False, True), repeat=len(all_names))
    )
    return all(_is_member(left, case) == _is_member(right, case) for case in cases)


def _set_names(node: Node) -> set[str] | None:
    match node:
        case Symbol(name):
            return {name}
        case SetOperation(_, left, right):
            one, two = _set_names(left), _set_names(right)
            return None if one is None or two is None else one | two
        case _:
            return None


def _is_member(node: Node, case: dict[str, bool]) -> bool:
    match node:
        case SetOperation(operator, left, right):
            return OPERATIONS[operator](_is_member(left, case), _is_member(right, case))
        case Symbol(name):
            return case[name]
        case _:
            return False

"""Evaluates sums and products with integer bounds, term by term."""

from collections.abc import Callable
from fractions import Fraction
from functools import reduce

from posttrain.grading.expression_tree import Node, Number, Symbol
from posttrain.grading.rational_functions import (
    Budget,
    RationalFunction,
    add,
    as_rational,
    multiply,
    rational,
)
from posttrain.grading.tree_transform import map_leaves

MAX_TERMS = 1000
Evaluate = Callable[[Node, Budget], RationalFunction]


def evaluate_series(
    name: str, arguments: tuple[Node, ...], evaluate: Evaluate, budget: Budget
) -> RationalFunction | None:
    """The value of a sum or product. None when the bounds are not integers or too far apart."""
    variable, low, high, body = arguments
    first, last = as_rational(evaluate(low, budget)), as_rational(evaluate(high, budget))
    if first is None or last is None or first.denominator != 1 or last.denominator != 1:
        return None
    if last - first >= MAX_TERMS or not isinstance(variable, Symbol):
        return None
    terms = (
        evaluate(substitute(body, variable.name, Number(Fraction(n))), budget)
        for n in range(int(first), int(last) + 1)
    )
    return reduce(
        lambda one, two: (add if name == "sum" else multiply)(one, two, budget),
        terms,
        rational(0 if name == "sum" else 1),
    )


def substitute(node: Node, name: str, value: Node) -> Node:
    return map_leaves(node, lambda leaf: value if isinstance(leaf, Symbol) and leaf.name == name else leaf)

"""Compares answers with integration constants: their values and names do not matter."""

from itertools import permutations

from posttrain.grading.context import Context, Outcome
from posttrain.grading.expression_tree import Node, Power, Product, Quotient, Sum, Symbol, negate, symbols
from posttrain.grading.linear_relations import difference, substitute_point
from posttrain.grading.rational_functions import Undecided, Undefined
from posttrain.grading.scalars import compare_scalars
from posttrain.grading.tree_transform import map_leaves

FREE_CONSTANTS = frozenset(("A", "B", "C", "D", "K", "c", "k"))
MAX_NAMES = 3
FUNCTIONS = Sum | Product | Quotient | Power


def integration_constant_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares sums with a separate constant such as C, and functions with constants of other names."""
    return _compare_up_to_constant(left, right, context) or _renamed(left, right, context)


def _renamed(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares functions such as A e^x + B e^-x and c_1 e^x + c_2 e^-x, for all assignments of the names."""
    if not isinstance(left, FUNCTIONS) or not isinstance(right, FUNCTIONS):
        return None
    one, two = sorted(symbols(left) - symbols(right)), sorted(symbols(right) - symbols(left))
    constants = all(name.partition("_")[0] in FREE_CONSTANTS for name in (*one, *two))
    if not one or len(one) != len(two) or len(one) > MAX_NAMES or not constants:
        return None
    if not symbols(left) & symbols(right):
        return None
    for order in permutations(two):
        outcome = compare_scalars(
            _rename_symbols(left, dict(zip(one, map(Symbol, order), strict=True))), right, context
        )
        if outcome.equal or (outcome.equal is None and context.symbolic is None):
            return outcome
    return None


def _rename_symbols(node: Node, names: dict[str, Symbol]) -> Node:
    return map_leaves(node, lambda leaf: names.get(leaf.name, leaf) if isinstance(leaf, Symbol) else leaf)


def _compare_up_to_constant(left: Node, right: Node, context: Context) -> Outcome | None:
    if not isinstance(left, Sum) or not isinstance(right, Sum):
        return None
    one, two = _terms_without_constant(left), _terms_without_constant(right)
    if one is None or two is None:
        return None
    gap = Sum((one, negate(two)))
    try:
        value = difference(one, two, context.budget)
        if all(name[0] in "#%" for term in value.numerator for name, _ in term) and value.denominator == {
            (): 1
        }:
            return Outcome(True, "equal up to a free constant")
    except (Undecided, Undefined):
        pass
    return compare_scalars(gap, substitute_point(gap, symbols(gap)), context)


def _terms_without_constant(node: Sum) -> Node | None:
    """The other terms, if exactly one term is a free constant that does not occur in the others."""
    constants = [term for term in node.terms if _is_free_constant(term)]
    rest = tuple(term for term in node.terms if not _is_free_constant(term))
    if len(constants) != 1 or not rest or not symbols(Sum(rest)):
        return None
    return None if symbols(constants[0]) & symbols(Sum(rest)) else Sum(rest)


def _is_free_constant(term: Node) -> bool:
    match term:
        case Symbol(name):
            return name.partition("_")[0] in FREE_CONSTANTS
        case Product((_, Symbol(name))) if len(symbols(term)) == 1:
            return name.partition("_")[0] in FREE_CONSTANTS
        case _:
            return False

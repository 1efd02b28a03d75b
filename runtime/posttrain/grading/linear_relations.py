"""Solves linear relations for their variable, and compares relations up to a constant factor."""

from fractions import Fraction

from posttrain.grading.context import Context, Outcome
from posttrain.grading.exact_arithmetic import evaluate_exactly, is_decisive
from posttrain.grading.expression_tree import (
    Call,
    Node,
    Number,
    Quotient,
    Sum,
    Symbol,
    negate,
    symbols,
)
from posttrain.grading.magnitude import approximate
from posttrain.grading.rational_functions import (
    ONE,
    Budget,
    Monomial,
    Polynomial,
    RationalFunction,
    Undecided,
    Undefined,
    add_polynomials,
    multiply_polynomials,
    rational,
)
from posttrain.grading.rational_functions import add as ring_add
from posttrain.grading.rational_functions import multiply as ring_multiply
from posttrain.grading.tree_transform import map_leaves

FLIPPED_OPERATORS = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def solve_for_bound(left: Node, operator: str, right: Node, context: Context) -> tuple[Node, str] | None:
    """The bound that `left operator right` sets on its variable: (5, "<") for x < 5 and for 5 > x."""
    if operator not in FLIPPED_OPERATORS:
        return None
    if _is_variable(left) and not symbols(right):
        return right, operator
    if _is_variable(right) and not symbols(left):
        return left, FLIPPED_OPERATORS[operator]
    return _solve_linear(left, operator, right, context)


def _is_variable(node: Node) -> bool:
    return isinstance(node, Symbol) or (isinstance(node, Call) and node.name.startswith(":"))


def _solve_linear(left: Node, operator: str, right: Node, context: Context) -> tuple[Node, str] | None:
    """The bound of a linear relation `a x + b operator 0` with rational a and b."""
    names = symbols(left) | symbols(right)
    if len(names) != 1:
        return None
    (name,) = names
    value = difference(left, right, context.budget)
    if value.denominator is not ONE:
        return None
    slope = value.numerator.get(((name, 1),))
    if slope is None or any(len(m) != 1 or m[0] != (name, 1) for m in value.numerator if m):
        return None
    bound = Number(-value.numerator.get((), Fraction(0)) / slope)
    return bound, operator if slope > 0 else FLIPPED_OPERATORS[operator]


def difference(left: Node, right: Node, budget: Budget) -> RationalFunction:
    minus = ring_multiply(evaluate_exactly(right, budget), rational(-1), budget)
    return ring_add(evaluate_exactly(left, budget), minus, budget)


def compare_up_to_factor(
    one: tuple[Node, Node], two: tuple[Node, Node], positive: bool, context: Context
) -> Outcome:
    """Whether left - right of one relation is a constant times that of the other.

    For inequalities (`positive`) the constant must be positive.
    """
    try:
        first, second = (difference(*sides, context.budget) for sides in (one, two))
        if not (first.numerator and second.numerator):
            return Outcome(not first.numerator and not second.numerator, "an identity on one side only")
        ratio = _constant_ratio(
            _clear_negative_powers(first, context.budget),
            _clear_negative_powers(second, context.budget),
            context.budget,
        )
    except (Undecided, Undefined) as reason:
        return _compare_numerically(one, two, positive, str(reason), context)
    if ratio is not None:
        size = approximate(ratio)
        if not positive or (size is not None and size > 0):
            return Outcome(True, "the same relation up to a factor")
    if is_decisive(first) and is_decisive(second):
        return Outcome(False, "not the same relation")
    return _compare_numerically(one, two, positive, "the relations are not polynomial", context)


def _clear_negative_powers(value: RationalFunction, budget: Budget) -> Polynomial:
    """The numerator, multiplied by powers of the variables so that no exponent is negative."""
    lowest: dict[str, int | Fraction] = {}
    for monomial in value.numerator:
        for name, exponent in monomial:
            if exponent < 0:
                lowest[name] = min(lowest.get(name, 0), exponent)
    if not lowest:
        return value.numerator
    factor: Monomial = tuple(sorted((name, -exponent) for name, exponent in lowest.items()))
    return multiply_polynomials(value.numerator, {factor: Fraction(1)}, budget)


def _constant_ratio(one: Polynomial, two: Polynomial, budget: Budget) -> RationalFunction | None:
    """The number c with one = c * two, or None. c is the quotient of the coefficients of one monomial."""
    first, second = _group_by_variables(one), _group_by_variables(two)
    if first.keys() != second.keys():
        return None
    pivot = min(first, key=str)
    over, under = first[pivot], second[pivot]
    for monomial in first:
        left = multiply_polynomials(first[monomial], under, budget)
        right = multiply_polynomials(second[monomial], over, budget)
        if add_polynomials(left, {m: -c for m, c in right.items()}, budget):
            return None
    return RationalFunction(over, under, True)


def _group_by_variables(polynomial: Polynomial) -> dict[Monomial, Polynomial]:
    """The coefficients (numbers, roots, pi), grouped by the variables of their monomials."""
    groups: dict[Monomial, Polynomial] = {}
    for monomial, coefficient in polynomial.items():
        varying = tuple(part for part in monomial if part[0][0] not in "#%")
        fixed = tuple(part for part in monomial if part[0][0] in "#%")
        groups.setdefault(varying, {})[fixed] = coefficient
    return groups


def _compare_numerically(
    one: tuple[Node, Node], two: tuple[Node, Node], positive: bool, reason: str, context: Context
) -> Outcome:
    """Compare the relations in a worker: the quotient of their differences must be equal at every point."""
    if context.symbolic is None:
        return Outcome(None, reason)
    first, second = (Sum((left, negate(right))) for left, right in (one, two))
    ratio_at_point = substitute_point(Quotient(first, second), symbols(first) | symbols(second))
    outcome = context.symbolic.compare(Quotient(first, second), ratio_at_point)
    if outcome.equal and positive:
        size = context.symbolic.value(ratio_at_point)
        if size is None or size <= 0:
            return Outcome(False, "the same relation with the inequality reversed")
    return outcome


def substitute_point(node: Node, names: frozenset[str]) -> Node:
    """The node with rational numbers substituted for its variables."""
    points = {name: Number(Fraction(7 + 4 * n, 5)) for n, name in enumerate(sorted(names))}
    return map_leaves(node, lambda leaf: points.get(leaf.name, leaf) if isinstance(leaf, Symbol) else leaf)

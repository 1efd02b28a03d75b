"""Relations as polynomials: one link solved for its variable, two relations compared up to a factor."""

from fractions import Fraction

from posttrain.runtime.grading.context import Context, Outcome
from posttrain.runtime.grading.exact import exact, settles
from posttrain.runtime.grading.magnitude import approximate
from posttrain.runtime.grading.rebuild import rebuilt
from posttrain.runtime.grading.ring import (
    ONE,
    Budget,
    Monomial,
    Polynomial,
    Undefined,
    Unsettled,
    Value,
    added,
    multiplied,
    rational,
)
from posttrain.runtime.grading.ring import add as ring_add
from posttrain.runtime.grading.ring import multiply as ring_multiply
from posttrain.runtime.grading.tree import (
    Call,
    Node,
    Number,
    Quotient,
    Sum,
    Symbol,
    negative,
    symbols,
)

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def solved(left: Node, operator: str, right: Node, context: Context) -> tuple[Node, str] | None:
    """`left operator right` as a bound on the variable in it: (5, "<") for x < 5 and for 5 > x."""
    if operator not in FLIPPED:
        return None
    if _lone(left) and not symbols(right):
        return right, operator
    if _lone(right) and not symbols(left):
        return left, FLIPPED[operator]
    return _solved_linear(left, operator, right, context)


def _lone(node: Node) -> bool:
    return isinstance(node, Symbol) or (isinstance(node, Call) and node.name.startswith(":"))


def _solved_linear(left: Node, operator: str, right: Node, context: Context) -> tuple[Node, str] | None:
    """a x + b operator 0 with rational a and any b without x."""
    names = symbols(left) | symbols(right)
    if len(names) != 1:
        return None
    (name,) = names
    value = difference(left, right, context.budget)
    if value.under is not ONE:
        return None
    slope = value.over.get(((name, 1),))
    if slope is None or any(len(m) != 1 or m[0] != (name, 1) for m in value.over if m):
        return None
    bound = Number(-value.over.get((), Fraction(0)) / slope)
    return bound, operator if slope > 0 else FLIPPED[operator]


def difference(left: Node, right: Node, budget: Budget) -> Value:
    minus = ring_multiply(exact(right, budget), rational(-1), budget)
    return ring_add(exact(left, budget), minus, budget)


def proportional(one: tuple[Node, Node], two: tuple[Node, Node], positive: bool, context: Context) -> Outcome:
    """Whether left - right of the one is a constant times that of the other (a positive one for `<`)."""
    try:
        first, second = (difference(*sides, context.budget) for sides in (one, two))
        if not (first.over and second.over):
            return Outcome(not first.over and not second.over, "an identity on one side only")
        ratio = _ratio(_cleared(first, context.budget), _cleared(second, context.budget), context.budget)
    except (Unsettled, Undefined) as reason:
        return _by_value(one, two, positive, str(reason), context)
    if ratio is not None:
        size = approximate(ratio)
        if not positive or (size is not None and size > 0):
            return Outcome(True, "the same relation up to a factor")
    if settles(first) and settles(second):
        return Outcome(False, "not the same relation")
    return _by_value(one, two, positive, "the relations hold more than polynomials", context)


def _cleared(value: Value, budget: Budget) -> Polynomial:
    """The numerator, negative powers of variables multiplied away."""
    lowest: dict[str, int | Fraction] = {}
    for monomial in value.over:
        for name, exponent in monomial:
            if exponent < 0:
                lowest[name] = min(lowest.get(name, 0), exponent)
    if not lowest:
        return value.over
    factor: Monomial = tuple(sorted((name, -exponent) for name, exponent in lowest.items()))
    return multiplied(value.over, {factor: Fraction(1)}, budget)


def _ratio(one: Polynomial, two: Polynomial, budget: Budget) -> Value | None:
    """The number c with one = c * two: c is sought among quotients of coefficients of a shared monomial."""
    first, second = _by_variables(one), _by_variables(two)
    if first.keys() != second.keys():
        return None
    pivot = min(first, key=str)
    over, under = first[pivot], second[pivot]
    for monomial in first:
        left = multiplied(first[monomial], under, budget)
        right = multiplied(second[monomial], over, budget)
        if added(left, {m: -c for m, c in right.items()}, budget):
            return None
    return Value(over, under, True)


def _by_variables(polynomial: Polynomial) -> dict[Monomial, Polynomial]:
    """Coefficients (numbers, roots, pi) gathered by the part of the monomial that varies."""
    made: dict[Monomial, Polynomial] = {}
    for monomial, coefficient in polynomial.items():
        varying = tuple(part for part in monomial if part[0][0] not in "#%")
        fixed = tuple(part for part in monomial if part[0][0] in "#%")
        made.setdefault(varying, {})[fixed] = coefficient
    return made


def _by_value(
    one: tuple[Node, Node], two: tuple[Node, Node], positive: bool, reason: str, context: Context
) -> Outcome:
    """In a worker: is the quotient of the two differences the same at every point?"""
    if context.symbolic is None:
        return Outcome(None, reason)
    first, second = (Sum((left, negative(right))) for left, right in (one, two))
    here = at_one_point(Quotient(first, second), symbols(first) | symbols(second))
    there = context.symbolic.same(Quotient(first, second), here)
    if there.equal and positive:
        size = context.symbolic.value(here)
        if size is None or size <= 0:
            return Outcome(False, "the same relation turned round")
    return there


def at_one_point(node: Node, names: frozenset[str]) -> Node:
    """The node with a rational point put in for its variables."""
    points = {name: Number(Fraction(7 + 4 * n, 5)) for n, name in enumerate(sorted(names))}
    return rebuilt(node, lambda leaf: points.get(leaf.name, leaf) if isinstance(leaf, Symbol) else leaf)

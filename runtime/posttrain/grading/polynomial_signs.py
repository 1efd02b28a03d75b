"""Solves inequalities of quotients of polynomials in one variable.

The roots are exact: rational roots by trial, the others by the quadratic formula for x or x^2.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

from posttrain.grading.context import Context
from posttrain.grading.exact_arithmetic import evaluate_exactly
from posttrain.grading.expression_tree import Node, Number, Power, Product, Quotient, Sum, negate, symbols
from posttrain.grading.interval_sets import (
    INFINITY,
    MINUS_INFINITY,
    Interval,
    IntervalSet,
    point_interval,
    union,
)
from posttrain.grading.linear_relations import difference
from posttrain.grading.magnitude import approximate
from posttrain.grading.rational_functions import Polynomial, Undecided

MAX_DEGREE = 8
MAX_TRIALS = 2000
HALF = Number(Fraction(1, 2))
Coefficients = list[Fraction]  # of x^0, x^1, ...
SIGN_TESTS: dict[str, Callable[[Fraction], bool]] = {
    "<": lambda x: x < 0,
    "<=": lambda x: x <= 0,
    ">": lambda x: x > 0,
    ">=": lambda x: x >= 0,
    "!=": lambda x: x != 0,
}


def solution_set(left: Node, operator: str, right: Node, context: Context) -> IntervalSet | None:
    """The values of the only variable for which `left operator right` holds. None if it is not supported."""
    names = symbols(left) | symbols(right)
    if operator not in SIGN_TESTS or len(names) != 1:
        return None
    (name,) = names
    value = difference(left, right, context.budget)
    if not (_has_integer_powers(value.numerator, name) and _has_integer_powers(value.denominator, name)):
        return None
    # Negative powers are poles at zero. Numerator and denominator are multiplied by a power that clears them.
    by = -min(0, _lowest_power(value.numerator, name), _lowest_power(value.denominator, name))
    over, under = (_coefficients(side, name, by) for side in (value.numerator, value.denominator))
    return _solution(over, under, SIGN_TESTS[operator], context)


def _has_integer_powers(polynomial: Polynomial, name: str) -> bool:
    return all(
        other == name and power.denominator == 1 and abs(power) <= MAX_DEGREE
        for term in polynomial
        for other, power in term
    )


def _lowest_power(polynomial: Polynomial, name: str) -> int:
    return min((int(dict(term).get(name, 0)) for term in polynomial), default=0)


def _coefficients(polynomial: Polynomial, name: str, by: int) -> Coefficients:
    powers = {int(dict(term).get(name, 0)) + by: coefficient for term, coefficient in polynomial.items()}
    return [powers.get(power, Fraction(0)) for power in range(max(powers, default=-1) + 1)]


def _solution(
    over: Coefficients, under: Coefficients, holds: Callable[[Fraction], bool], context: Context
) -> IntervalSet:
    poles = _roots(under, context)
    marks = _sorted([*_roots(over, context), *poles], context)
    sizes = [_approximate_root(mark, context) for mark in marks]
    intervals = [
        point_interval(mark)
        for mark, size in zip(marks, sizes, strict=True)
        if holds(Fraction(0)) and size not in [_approximate_root(pole, context) for pole in poles]
    ]
    ends = [MINUS_INFINITY, *marks, INFINITY]
    for place, (low, high) in enumerate(pairwise(ends)):
        x = _point_in_gap(sizes, place)
        if holds(_evaluate(over, x) * _evaluate(under, x)):
            intervals.append(Interval(low, False, high, False))
    return union(intervals, context)


def _point_in_gap(sizes: list[Fraction], place: int) -> Fraction:
    """A rational number in the gap before the mark with this index."""
    if not sizes:
        return Fraction(0)
    if place == 0:
        return sizes[0] - 1
    return sizes[-1] + 1 if place == len(sizes) else (sizes[place - 1] + sizes[place]) / 2


def _evaluate(coefficients: Coefficients, x: Fraction) -> Fraction:
    total = Fraction(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _approximate_root(node: Node, context: Context) -> Fraction:
    size = approximate(evaluate_exactly(node, context.budget))
    if size is None:
        raise Undecided("a root of unknown value")
    return size


def _sorted(marks: list[Node], context: Context) -> list[Node]:
    by_size = {_approximate_root(mark, context): mark for mark in marks}
    return [by_size[size] for size in sorted(by_size)]


def _roots(coefficients: Coefficients, context: Context) -> list[Node]:
    """The real roots. Raises Undecided if they cannot be computed exactly."""
    left, found = coefficients, list[Node]()
    while len(left) > 1 and (root := _rational_root(left, context)) is not None:
        found.append(Number(root))
        left = _synthetic_division(left, root)
    if len(left) == 3:
        return found + _quadratic_roots(left)
    if len(left) == 5 and not left[1] and not left[3]:
        squares = [*_quadratic_roots(left[::2])]
        return found + [one for square in squares for one in _square_roots(square, context)]
    if len(left) > 1:
        raise Undecided("a polynomial without an exact formula for its roots")
    return found


def _square_roots(square: Node, context: Context) -> list[Node]:
    root = Power(square, HALF)
    return [root, negate(root)] if _approximate_root(square, context) >= 0 else []


def _rational_root(coefficients: Coefficients, context: Context) -> Fraction | None:
    if not coefficients[0]:
        return Fraction(0)
    scale = 1
    for coefficient in coefficients:
        scale *= coefficient.denominator
    over, under = abs(int(coefficients[0] * scale)), abs(int(coefficients[-1] * scale))
    if over.bit_length() + under.bit_length() > 60:
        raise Undecided("coefficients too large")
    tried = [Fraction(p, q) for q in _divisors(under) for p in _divisors(over)]
    context.budget.spend(len(tried) * len(coefficients))
    return next((r for p in tried for r in (p, -p) if not _evaluate(coefficients, r)), None)


def _divisors(number: int) -> list[int]:
    low = [n for n in range(1, min(MAX_TRIALS, number) + 1) if number % n == 0 and n * n <= number]
    return low + [number // n for n in low]


def _synthetic_division(coefficients: Coefficients, root: Fraction) -> Coefficients:
    quotient, carry = list[Fraction](), Fraction(0)
    for coefficient in reversed(coefficients):
        carry = carry * root + coefficient
        quotient.append(carry)
    return quotient[-2::-1]


def _quadratic_roots(coefficients: Coefficients) -> list[Node]:
    c, b, a = coefficients
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return []
    root = Power(Number(discriminant), HALF)
    signs: list[Node] = [root, negate(root)] if discriminant else [Number(Fraction(0))]
    return [Quotient(Sum((Number(-b), sign)), Product((Number(2 * a),))) for sign in signs]

"""Compares piecewise functions, by sampling points of every overlap of their domains."""

from fractions import Fraction

from posttrain.grading.context import Context, Outcome, all_of
from posttrain.grading.exact_arithmetic import evaluate_exactly
from posttrain.grading.expression_tree import (
    Cases,
    Group,
    Listing,
    Matrix,
    Node,
    Number,
    Relation,
    Text,
    symbols,
)
from posttrain.grading.finite_series import substitute
from posttrain.grading.interval_sets import REAL_LINE, Interval, IntervalSet, complement, intersection, union
from posttrain.grading.magnitude import approximate
from posttrain.grading.rational_functions import Undecided
from posttrain.grading.real_sets import compare_interval_sets, condition_set
from posttrain.grading.scalars import compare_scalars, infinity_sign

Branches = list[tuple[Node, IntervalSet]]
OTHERWISE = Text("otherwise")
NON_FUNCTIONS = Text | Group | Listing | Matrix | Relation
SAMPLE_POSITIONS = (Fraction(1, 7), Fraction(2, 5), Fraction(5, 8), Fraction(9, 10))


def piecewise_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if not isinstance(left, Cases) and not isinstance(right, Cases):
        return None
    if isinstance(left, NON_FUNCTIONS) or isinstance(right, NON_FUNCTIONS):
        return None
    names = _condition_variables(left) | _condition_variables(right)
    if len(names) != 1:
        return Outcome(None, "a piecewise function of more than one variable")
    try:
        one, two = _branches(left, context), _branches(right, context)
        return _compare_branches(one, two, min(names), context)
    except Undecided as reason:
        return Outcome(None, str(reason))


def _condition_variables(node: Node) -> frozenset[str]:
    conditions = [condition for _, condition in node.branches] if isinstance(node, Cases) else []
    return frozenset[str]().union(*(symbols(condition) for condition in conditions))


def _branches(node: Node, context: Context) -> Branches:
    if not isinstance(node, Cases):
        return [(node, REAL_LINE)]
    branches, covered = list[tuple[Node, IntervalSet]](), IntervalSet()
    for value, condition in node.branches:
        domain = complement(covered) if condition == OTHERWISE else condition_set(condition, context)
        if domain is None:
            raise Undecided("a condition that does not describe a set of numbers")
        branches.append((value, domain))
        covered = union([*covered, *domain], context)
    return branches


def _compare_branches(one: Branches, two: Branches, name: str, context: Context) -> Outcome:
    domains = [union([piece for _, domain in side for piece in domain], context) for side in (one, two)]
    outcomes = [compare_interval_sets(domains[0], domains[1], context)]
    for first, first_domain in one:
        for second, second_domain in two:
            for piece in intersection(first_domain, second_domain, context):
                for x in _sample_points(piece, context):
                    one_value, other = (substitute(side, name, Number(x)) for side in (first, second))
                    outcomes.append(compare_scalars(one_value, other, context))
    worst = all_of(outcomes)
    return worst._replace(reason="equal at every sampled point") if worst.equal else worst


def _sample_points(piece: Interval, context: Context) -> list[Fraction]:
    low, high = _endpoint_value(piece.low, context), _endpoint_value(piece.high, context)
    if low is not None and low == high:
        return [low]
    if low is None and high is None:
        low, high = Fraction(-9), Fraction(9)
    low = low if low is not None else (high or Fraction(0)) - 9
    high = high if high is not None else low + 9
    return [low + part * (high - low) for part in SAMPLE_POSITIONS]


def _endpoint_value(node: Node, context: Context) -> Fraction | None:
    return None if infinity_sign(node) else approximate(evaluate_exactly(node, context.budget))

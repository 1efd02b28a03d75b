"""Functions given by cases: compared at points of every overlap of their domains."""

from fractions import Fraction

from posttrain.runtime.grading.context import Context, Outcome, both
from posttrain.runtime.grading.exact import exact
from posttrain.runtime.grading.magnitude import approximate
from posttrain.runtime.grading.pieces import LINE, Piece, Pieces, complement, intersection, united
from posttrain.runtime.grading.realsets import conditioned, same_set
from posttrain.runtime.grading.ring import Unsettled
from posttrain.runtime.grading.scalars import infinite, same
from posttrain.runtime.grading.series import substituted
from posttrain.runtime.grading.tree import (
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

Branches = list[tuple[Node, Pieces]]
OTHERWISE = Text("otherwise")
NO_FUNCTION = Text | Group | Listing | Matrix | Relation
INSIDE = (Fraction(1, 7), Fraction(2, 5), Fraction(5, 8), Fraction(9, 10))


def piecewise(left: Node, right: Node, context: Context) -> Outcome | None:
    if not isinstance(left, Cases) and not isinstance(right, Cases):
        return None
    if isinstance(left, NO_FUNCTION) or isinstance(right, NO_FUNCTION):
        return None
    names = _variable(left) | _variable(right)
    if len(names) != 1:
        return Outcome(None, "cases that depend on more than one variable")
    try:
        one, two = _branches(left, context), _branches(right, context)
        return _compared(one, two, min(names), context)
    except Unsettled as reason:
        return Outcome(None, str(reason))


def _variable(node: Node) -> frozenset[str]:
    conditions = [condition for _, condition in node.branches] if isinstance(node, Cases) else []
    return frozenset[str]().union(*(symbols(condition) for condition in conditions))


def _branches(node: Node, context: Context) -> Branches:
    if not isinstance(node, Cases):
        return [(node, LINE)]
    made, taken = list[tuple[Node, Pieces]](), Pieces()
    for value, condition in node.branches:
        domain = complement(taken) if condition == OTHERWISE else conditioned(condition, context)
        if domain is None:
            raise Unsettled("a condition that is no set of numbers")
        made.append((value, domain))
        taken = united([*taken, *domain], context)
    return made


def _compared(one: Branches, two: Branches, name: str, context: Context) -> Outcome:
    domains = [united([piece for _, domain in side for piece in domain], context) for side in (one, two)]
    found = [same_set(domains[0], domains[1], context)]
    for first, here in one:
        for second, there in two:
            for piece in intersection(here, there, context):
                for x in _points(piece, context):
                    one_value, other = (substituted(side, name, Number(x)) for side in (first, second))
                    found.append(same(one_value, other, context))
    worst = both(found)
    return worst._replace(reason="the same at every point tried") if worst.equal else worst


def _points(piece: Piece, context: Context) -> list[Fraction]:
    low, high = _end(piece.low, context), _end(piece.high, context)
    if low is not None and low == high:
        return [low]
    if low is None and high is None:
        low, high = Fraction(-9), Fraction(9)
    low = low if low is not None else (high or Fraction(0)) - 9
    high = high if high is not None else low + 9
    return [low + part * (high - low) for part in INSIDE]


def _end(node: Node, context: Context) -> Fraction | None:
    return None if infinite(node) else approximate(exact(node, context.budget))

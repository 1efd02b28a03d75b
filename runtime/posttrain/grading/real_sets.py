"""Converts answers such as intervals, unions and inequalities to sets of reals, and compares them."""

from posttrain.grading.context import Context, Outcome, all_of
from posttrain.grading.expression_tree import (
    Builder,
    Call,
    Group,
    Listing,
    NamedSet,
    Node,
    Relation,
    SetOperation,
    Symbol,
    contains_node,
    negate,
    symbols,
)
from posttrain.grading.form_checks import PARAMETER
from posttrain.grading.interval_sets import (
    REAL_LINE,
    Interval,
    IntervalSet,
    complement,
    half_line,
    intersection,
    point_interval,
    union,
)
from posttrain.grading.linear_relations import FLIPPED_OPERATORS, solve_for_bound
from posttrain.grading.polynomial_signs import solution_set
from posttrain.grading.rational_functions import Undecided
from posttrain.grading.scalars import compare_scalars


def is_interval(node: Node) -> bool:
    return isinstance(node, Group) and len(node.items) == 2 and node.opening in "([" and node.closing in ")]"


def interval_set(node: Node, context: Context) -> IntervalSet | None:
    """The set that a node describes, or None when it does not describe a set. Raises Undecided."""
    match node:
        case NamedSet("reals"):
            return REAL_LINE
        case NamedSet("empty"):
            return ()
        case Group("(" | "[", (low, high), ")" | "]"):
            return union([Interval(low, node.opening == "[", high, node.closing == "]")], context)
        case Group("{", items, "}"):
            return union([point_interval(item) for item in items], context)
        case SetOperation(operator, left, right):
            return _apply_operation(
                operator, interval_set(left, context), interval_set(right, context), context
            )
        case Relation(sides, ("in" | "notin" as operator,)):
            inner = interval_set(sides[1], context)
            return inner if operator == "in" or inner is None else complement(inner)
        case Relation():
            return _chain(node, context)
        case Builder(Symbol() | Relation((Symbol(), _), ("in",)), condition):
            return condition_set(condition, context)
        case Listing(items, conjunction):
            return _combine_items(items, conjunction, context)
        case _:
            return None


def condition_set(condition: Node, context: Context) -> IntervalSet | None:
    if isinstance(condition, Listing):
        return _combine_items(condition.items, "or" if condition.conjunction == "or" else "and", context)
    return interval_set(condition, context)


def _combine_items(items: tuple[Node, ...], conjunction: str, context: Context) -> IntervalSet | None:
    if not all(isinstance(item, Relation | SetOperation | NamedSet) or is_interval(item) for item in items):
        return None
    if len(frozenset[str]().union(*(symbols(item) for item in items))) > 1:
        return None
    parts = [interval_set(item, context) for item in items]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    whole = union([interval for part in known for interval in part], context)
    if conjunction == "or" or (conjunction == "," and whole != REAL_LINE):
        return whole
    result = known[0]
    for part in known[1:]:
        result = intersection(result, part, context)
    return result


def _apply_operation(
    operator: str, left: IntervalSet | None, right: IntervalSet | None, context: Context
) -> IntervalSet | None:
    if left is None or right is None:
        return None
    if operator == "union":
        return union([*left, *right], context)
    return intersection(left, right if operator == "intersection" else complement(right), context)


def _chain(node: Relation, context: Context) -> IntervalSet | None:
    """The set of a chain such as 1 < x <= 3, x != 2 or 2x > 4. Each link is solved for the variable."""
    result = REAL_LINE
    for link, operator in enumerate(node.operators):
        around = _around_zero(node.sides[link], operator, node.sides[link + 1], context)
        if around is not None:
            result = intersection(result, around, context)
            continue
        bound = solve_for_bound(node.sides[link], operator, node.sides[link + 1], context)
        half = (
            half_line(*bound)
            if bound
            else solution_set(node.sides[link], operator, node.sides[link + 1], context)
        )
        if half is None:
            return None
        result = intersection(result, half, context)
    return result


def _around_zero(left: Node, operator: str, right: Node, context: Context) -> IntervalSet | None:
    """The set of |u| < c, which is -c < u < c, or of |u| > c, which is the complement."""
    if isinstance(right, Call):
        left, right, operator = right, left, FLIPPED_OPERATORS.get(operator, "")
    match left:
        case Call("abs", (inner,)) if operator in ("<", "<=", ">", ">=") and not symbols(right):
            strict = "<" if operator in ("<", ">=") else "<="
            within = _chain(Relation((negate(right), inner, right), (strict, strict)), context)
            return within if within is None or operator[0] == "<" else complement(within)
        case _:
            return None


def compare_sets(left: Node, right: Node, context: Context) -> Outcome | None:
    """Whether two nodes describe the same set of reals. None when one of them does not describe a set."""
    names_differ = _free_names(left) != _free_names(right)
    if (
        contains_node(left, Relation)
        and contains_node(right, Relation)
        and _free_names(left)
        and _free_names(right)
        and names_differ
    ):
        return Outcome(False, "sets of different variables")
    try:
        one, two = interval_set(left, context), interval_set(right, context)
        if one is None or two is None:
            return None
        return compare_interval_sets(one, two, context)
    except Undecided as reason:
        return Outcome(None, str(reason))


def compare_interval_sets(one: IntervalSet, two: IntervalSet, context: Context) -> Outcome:
    if len(one) != len(two):
        return Outcome(False, "different sets of real numbers")
    if not one:
        return Outcome(True, "both sets are empty")
    return all_of([_compare_intervals(a, b, context) for a, b in zip(one, two, strict=True)])


def _free_names(node: Node) -> set[str]:
    """The variables, except those that a set-builder binds."""
    return {name for name in symbols(node) if not name.startswith(PARAMETER)}


def _compare_intervals(one: Interval, two: Interval, context: Context) -> Outcome:
    if (one.low_closed, one.high_closed) != (two.low_closed, two.high_closed):
        return Outcome(False, "only one of the intervals includes an endpoint")
    return all_of([compare_scalars(one.low, two.low, context), compare_scalars(one.high, two.high, context)])

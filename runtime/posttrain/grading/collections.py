"""Compares lists, sets, tuples and systems item by item, in order or in any order."""

from posttrain.grading.context import Context, Outcome, all_of
from posttrain.grading.expression_tree import (
    Builder,
    Dots,
    Group,
    Listing,
    NamedSet,
    Node,
    Relation,
    SetOperation,
    Text,
)
from posttrain.grading.form_checks import as_system
from posttrain.grading.real_sets import compare_sets, is_interval
from posttrain.grading.set_algebra import is_same_set_expression

SET_NODES = (NamedSet, SetOperation, Builder)
DIFFERENT_LENGTH = Outcome(False, "a different number of items")


def set_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares intervals, unions, inequalities and named sets."""
    if left == right or not (_describes_set(left) or _describes_set(right)):
        return None
    by_name = is_same_set_expression(left, right)
    if by_name is not None:
        return Outcome(by_name, "the same members" if by_name else "different members")
    outcome = compare_sets(left, right, context) or _compare_finite_sets(left, right, context)
    if outcome is None and isinstance(left, Builder) and isinstance(right, Builder):
        parts = [(left.element, right.element), (left.condition, right.condition)]
        return all_of([context.compare(one, two, context) for one, two in parts])
    return outcome


def _describes_set(node: Node) -> bool:
    if isinstance(node, Listing):
        return any(isinstance(item, Relation) and set(item.operators) != {"="} for item in node.items)
    return isinstance(node, SET_NODES)


def _compare_finite_sets(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares operations on finite sets with items of any kind."""
    one, two = _elements(left, context), _elements(right, context)
    return None if one is None or two is None else _compare_unordered(one, two, context)


def _elements(node: Node, context: Context) -> list[Node] | None:
    match node:
        case NamedSet("empty"):
            return []
        case Group("{", items, _):
            return distinct(items, context)
        case SetOperation(operator, left, right):
            one, two = _elements(left, context), _elements(right, context)
            if one is None or two is None:
                return None
            if operator == "union":
                return distinct((*one, *two), context)
            is_intersection = operator == "intersection"
            return [item for item in one if _is_member(item, two, context) is is_intersection]
        case _:
            return None


def _is_member(item: Node, items: list[Node], context: Context) -> bool:
    return any(context.compare(item, other, context).equal for other in items)


def distinct(items: tuple[Node, ...], context: Context) -> list[Node]:
    unique: list[Node] = []
    for item in items:
        if not _is_member(item, unique, context):
            unique.append(item)
    return unique


def system_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares a system such as x = 1, y = 2 with another system, or with (1, 2)."""
    one, two = as_system(left), as_system(right)
    if one and two:
        if {name for name, _ in one} != {name for name, _ in two}:
            return Outcome(False, "values of different variables")
        values = dict(two)
        return all_of([context.compare(value, values[name], context) for name, value in one])
    known, other = (one, right) if one else (two, left)
    if not known or not isinstance(other, Group | Listing) or len(other.items) != len(known):
        return None
    sides = [value for _, value in sorted(known)], [value for _, value in known]
    outcomes = [_compare_ordered(values, other.items, context, swapped=not one) for values in sides]
    return next((outcome for outcome in outcomes if outcome.equal), outcomes[0])


def _compare_ordered(
    one: list[Node], two: tuple[Node, ...], context: Context, swapped: bool = False
) -> Outcome:
    pairs = zip(two, one, strict=True) if swapped else zip(one, two, strict=True)
    return all_of([context.compare(a, b, context) for a, b in pairs])


def collection_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    one, two = _items(left), _items(right)
    if one is None and two is None:
        return None
    if one is None or two is None:
        return _compare_single(left, right, one, two, context)
    kinds = {_kind(left), _kind(right)}
    if "set" in kinds and "tuple" in kinds and context.options.order != "any":
        mixed = compare_sets(left, right, context) if is_interval(left) or is_interval(right) else None
        return mixed or Outcome(False, "a set compared with a tuple")
    if is_interval(left) and is_interval(right) and not _same_brackets(left, right):
        return Outcome(False, "different brackets")
    pairs = kinds == {"bare"} and all(isinstance(item, Group) for item in one + two)
    if "set" in kinds or pairs:
        one, two = distinct(tuple(one), context), distinct(tuple(two), context)
    if len(one) != len(two):
        return DIFFERENT_LENGTH
    return (
        _compare_ordered(one, tuple(two), context)
        if _is_ordered(kinds, one + two, context)
        else _compare_unordered(one, two, context)
    )


def _same_brackets(left: Node, right: Node) -> bool:
    return (
        isinstance(left, Group)
        and isinstance(right, Group)
        and ((left.opening, left.closing) == (right.opening, right.closing))
    )


def _is_ordered(kinds: set[str], items: list[Node], context: Context) -> bool:
    if any(isinstance(item, Dots) for item in items):
        return True
    if context.options.order == "any" or "set" in kinds:
        return False
    return "tuple" in kinds or context.options.order == "strict"


def _items(node: Node) -> list[Node] | None:
    return list(node.items) if isinstance(node, Group | Listing) else None


def _kind(node: Node) -> str:
    if isinstance(node, Group):
        return "set" if node.opening == "{" else "tuple"
    return "bare"


def _compare_single(
    left: Node, right: Node, one: list[Node] | None, two: list[Node] | None, context: Context
) -> Outcome | None:
    """Compares a collection with a single value: {5} equals 5."""
    items = one if one is not None else two
    if items is None or isinstance(left, Text) or isinstance(right, Text):
        return None
    items = distinct(tuple(items), context)
    if len(items) != 1:
        return Outcome(False, f"{len(items)} items compared with one")
    return context.compare(items[0], right, context) if one else context.compare(left, items[0], context)


def _compare_unordered(one: list[Node], two: list[Node], context: Context) -> Outcome:
    if len(one) != len(two):
        return DIFFERENT_LENGTH
    unmatched = list(two)
    outcomes: list[Outcome] = []
    for item in one:
        outcome = _take_match(item, unmatched, context)
        if not outcome.equal:
            return outcome
        outcomes.append(outcome)
    return all_of(outcomes) if outcomes else Outcome(True, "both are empty")


def _take_match(item: Node, unmatched: list[Node], context: Context) -> Outcome:
    """Remove the first unmatched item that equals this item, and return the outcome."""
    undecided = None
    for index, other in enumerate(unmatched):
        outcome = context.compare(item, other, context)
        if outcome.equal:
            del unmatched[index]
            return outcome
        undecided = undecided or (outcome if outcome.equal is None else None)
    return undecided or Outcome(False, "an item without a match")

"""Compares equations, inequalities, assignments and congruences with each other and with bare values."""

from posttrain.grading.context import Context, Outcome, all_of, any_of
from posttrain.grading.expression_tree import (
    Call,
    Congruence,
    Group,
    Node,
    Number,
    Product,
    Quotient,
    Ratio,
    Relation,
    Sum,
    Symbol,
    Text,
    children,
    negate,
    symbols,
)
from posttrain.grading.finite_series import substitute
from posttrain.grading.form_checks import as_assignment, is_label
from posttrain.grading.linear_relations import compare_up_to_factor
from posttrain.grading.real_sets import compare_sets
from posttrain.grading.scalars import compare_scalars

FLIPPED = {">": "<", ">=": "<="}


def relation_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Congruence) or isinstance(right, Congruence):
        return _compare_congruences(left, right, context)
    if isinstance(left, Relation) and isinstance(right, Relation):
        return _compare_relations(left, right, context)
    if isinstance(left, Relation):
        return _compare_with_value(left, right, context)
    if isinstance(right, Relation):
        return _compare_with_value(right, left, context)
    return None


def _compare_relations(left: Relation, right: Relation, context: Context) -> Outcome:
    one, two = as_assignment(left), as_assignment(right)
    if one and two:
        return _compare_assignments(one, two, left, right, context)
    if "in" in left.operators + right.operators and left.operators == right.operators:
        return all_of([context.compare(a, b, context) for a, b in zip(left.sides, right.sides, strict=True)])
    sets = compare_sets(left, right, context) if _is_same_inequality(left, right) else None
    if sets is not None:
        return sets
    if len(left.sides) == 2 == len(right.sides):
        return _compare_up_to_factor(left, right, context)
    left, right = _ascending(left), _ascending(right)
    if left.operators == right.operators:
        return all_of([context.compare(a, b, context) for a, b in zip(left.sides, right.sides, strict=True)])
    return Outcome(False, "different relations")


def _ascending(node: Relation) -> Relation:
    """Convert c > b > a to a < b < c."""
    if not set(node.operators) <= set(FLIPPED):
        return node
    return Relation(node.sides[::-1], tuple(FLIPPED[operator] for operator in reversed(node.operators)))


def _is_same_inequality(left: Relation, right: Relation) -> bool:
    equations = set(left.operators + right.operators) == {"="}
    return symbols(left) == symbols(right) and not equations


def _compare_assignments(
    one: tuple[Node, Node], two: tuple[Node, Node], left: Relation, right: Relation, context: Context
) -> Outcome:
    if _same_label(one[0], two[0]):
        values = context.compare(one[1], _rename_argument(one[0], two[0], two[1]), context)
        if values.equal or not symbols(one[0]) & (symbols(one[1]) | symbols(two[1])):
            return values
        return any_of([values, _compare_up_to_factor(left, right, context)])
    if symbols(one[1]) or symbols(two[1]):
        return _compare_up_to_factor(left, right, context)
    return Outcome(False, "values of different variables")


def _rename_argument(one: Node, two: Node, value: Node) -> Node:
    """Rename the variable in the value of f(t) to that of f(x), since its name does not matter."""
    match one, two:
        case Call(_, (Symbol() as new,)), Call(_, (Symbol(old),)) if new.name != old:
            is_used = new.name in symbols(value)
            return value if is_used else substitute(value, old, new)
        case _:
            return value


def _same_label(one: Node, two: Node) -> bool:
    """Whether two labels can name the same value: equal names, a label in words, or f(x) and y."""
    if isinstance(one, Text) or isinstance(two, Text):
        return True
    if isinstance(one, Symbol) and isinstance(two, Symbol):
        return one.name.casefold() == two.name.casefold()
    if isinstance(one, Call) and isinstance(two, Call):
        return one.name == two.name
    if isinstance(one, Group) or isinstance(two, Group):
        return one == two
    return {"y", "f", "g", "h"} >= {node.name.strip(":") for node in (one, two) if isinstance(node, Symbol)}


def _compare_up_to_factor(left: Relation, right: Relation, context: Context) -> Outcome:
    """Compares two relations with two sides each, as polynomials up to a factor."""
    one, first = _flip(left)
    two, second = _flip(right)
    if first != second:
        return Outcome(False, "different relations")
    return compare_up_to_factor(one, two, first in ("<", "<="), context)


def _flip(node: Relation) -> tuple[tuple[Node, Node], str]:
    operator, sides = node.operators[0], (node.sides[0], node.sides[-1])
    return ((sides[1], sides[0]), FLIPPED[operator]) if operator in FLIPPED else (sides, operator)


def _compare_with_value(relation: Relation, value: Node, context: Context) -> Outcome | None:
    if pair := as_assignment(relation):
        return context.compare(pair[1], value, context)
    if relation.operators == ("in",) and is_label(relation.sides[0]):
        return context.compare(relation.sides[1], value, context)
    if set(relation.operators) != {"="}:
        return compare_sets(relation, value, context)
    last = relation.sides[-1]
    if not symbols(relation):
        true = compare_scalars(relation.sides[0], last, context)
        if true.equal or contains_named_function(relation.sides[0]):
            return context.compare(last, value, context)
        return true._replace(reason="a false equation")
    if not symbols(last) and not symbols(value) and _defines_value(relation.sides[0], last):
        return context.compare(last, value, context)
    return Outcome(False, "an equation compared with a value")


def _defines_value(left: Node, right: Node) -> bool:
    """Whether an equation defines a value, such as a + b = 5, or must be solved, such as x^2 - 1 = 0."""
    return (_only_symbols(left) and bool(symbols(left))) or (
        bool(symbols(left))
        and not (isinstance(right, Number) and right.value == 0)
        and _is_named_quantity(left)
    )


def _only_symbols(node: Node) -> bool:
    match node:
        case Sum(parts) | Product(parts) | Ratio(parts):
            return all(_only_symbols(part) for part in parts)
        case Quotient(left, right):
            return _only_symbols(left) and _only_symbols(right)
        case _:
            return isinstance(node, Symbol)


def contains_named_function(node: Node) -> bool:
    """Whether a node contains an unknown function such as f(x), so that lim f(x) = 2 defines a value."""
    named = isinstance(node, Call) and node.name.startswith(":")
    return named or any(contains_named_function(child) for child in children(node))


def _is_named_quantity(node: Node) -> bool:
    """Whether a node is a named quantity such as |AB|, f(2) or cos A."""
    return isinstance(node, Call)


def _compare_remainder(left: Node, right: Node, context: Context) -> Outcome:
    """Compares with a remainder: 7 mod 3 is the number 1."""
    sides = [_modulo_node(node) if isinstance(node, Congruence) else node for node in (left, right)]
    if sides[0] is None or sides[1] is None:
        return Outcome(False, "a congruence compared with another type")
    return context.compare(sides[0], sides[1], context)


def _modulo_node(node: Congruence) -> Node | None:
    if node.left != Text(""):
        return None
    times = Call("floor", (Quotient(node.right, node.modulus),))
    return Sum((node.right, negate(Product((node.modulus, times)))))


def _compare_congruences(left: Node, right: Node, context: Context) -> Outcome:
    if not (isinstance(left, Congruence) and isinstance(right, Congruence)):
        return _compare_remainder(left, right, context)
    moduli = compare_scalars(left.modulus, right.modulus, context)
    if not moduli.equal:
        return moduli._replace(reason="different moduli" if moduli.equal is False else moduli.reason)
    gap = Quotient(Sum((left.right, negate(right.right))), left.modulus)
    return compare_scalars(Call("floor", (gap,)), gap, context)

"""Normalizes the form of answers: expands plus-or-minus signs, merges labels, renames parameters."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from posttrain.grading.expression_tree import (
    PI,
    Builder,
    Call,
    Group,
    Listing,
    NamedSet,
    Node,
    Number,
    ParseError,
    Product,
    Relation,
    Sign,
    Symbol,
    Text,
    children,
    contains_node,
    symbols,
)
from posttrain.grading.tree_transform import map_leaves

MAX_SIGNS = 3
PARAMETER = "any integer"
INTEGER_NAMES = frozenset(("k", "m", "n"))
Assignment = tuple[Node, Node]


def normalize_form(node: Node) -> Node:
    if isinstance(node, Listing):
        return _normalize_listing(node)
    match node:
        case Product((Symbol(name), Group("(", (_, _, *_)) as named)) if name[0].isupper():
            return named
        case Builder() if len(symbols(node)) == 1:
            return _rename_parameters(node, list(symbols(node)))
        case _:
            pass
    if not contains_node(node, Sign):
        return node
    if isinstance(node, Group) and node.opening == "{":
        return Group("{", tuple(one for item in node.items for one in expand_signs(item)), "}")
    # x != \pm 1 excludes both values.
    excludes = isinstance(node, Relation) and "!=" in node.operators
    return normalize_form(Listing(tuple(expand_signs(node)), "and" if excludes else "or"))


def _normalize_listing(node: Listing) -> Node:
    items = [one for item in node.items for one in expand_signs(item)]
    parameters = [name for item in items if (name := _integer_parameter(item, items))]
    items = [_rename_parameters(item, parameters) for item in items if not _integer_parameter(item, items)]
    items = _distribute_exclusions(items)
    pairs = [as_assignment(item) for item in items]
    labels = [pair[0] for pair in pairs if pair]
    if labels and len(labels) == len(items) and len({_stem(label) for label in labels}) == 1:
        items = [pair[1] for pair in pairs if pair]
    elif rounds := _solution_tuples(pairs):
        items = rounds
    elif len(labels) == 1 and (values := _joint_assignment(items, pairs)):
        return values
    elif len(labels) == 1 and pairs[0] and not any(isinstance(item, Relation) for item in items[1:]):
        items[0] = pairs[0][1]
    return items[0] if len(items) == 1 else Listing(tuple(items), node.conjunction)


def _distribute_exclusions(items: list[Node]) -> list[Node]:
    """Expand x != 1, 2 to x != 1 and x != 2."""
    match items[0] if items else None:
        case Relation((Symbol() as name, _), ("!=",)) if not any(isinstance(i, Relation) for i in items[1:]):
            return [items[0], *(Relation((name, item), ("!=",)) for item in items[1:])]
        case _:
            return items


def _solution_tuples(pairs: list[Assignment | None]) -> list[Node] | None:
    """Convert x = 1, y = 2 or x = 3, y = 4, whose labels repeat, to tuples of values."""
    known = [pair for pair in pairs if pair and isinstance(pair[0], Symbol)]
    length = len({str(label) for label, _ in known})
    if len(known) < len(pairs) or length < 2 or len(known) % length or len(known) == length:
        return None
    rounds = [
        sorted(known[at : at + length], key=lambda pair: str(pair[0])) for at in range(0, len(known), length)
    ]
    if any([label for label, _ in one] != [label for label, _ in rounds[0]] for one in rounds):
        return None
    return [Group("(", tuple(value for _, value in one), ")") for one in rounds]


def _joint_assignment(items: list[Node], pairs: list[Assignment | None]) -> Node | None:
    """Convert x, y = 1, 2 to a tuple of values."""
    half = len(items) // 2
    if len(items) != 2 * half + 1 or half == 0 or not (pair := pairs[half]):
        return None
    if not all(isinstance(item, Symbol) for item in items[:half]) or not isinstance(pair[0], Symbol):
        return None
    return Group("(", (pair[1], *items[half + 1 :]), ")")


def _integer_parameter(item: Node, items: list[Node]) -> str | None:
    """The k of `k in Z`, if another item contains k."""
    match item:
        case Relation((Symbol(name), NamedSet("integers" | "naturals")), ("in",)):
            return name if any(name in symbols(other) for other in items if other is not item) else None
        case _:
            return None


def _rename_parameters(item: Node, names: list[str]) -> Node:
    """Rename parameters to reserved names, since their letters do not matter."""
    if not names:
        return item
    new = {name: Symbol(f"{PARAMETER} {index}") for index, name in enumerate(names)}
    return map_leaves(item, lambda leaf: new.get(leaf.name, leaf) if isinstance(leaf, Symbol) else leaf)


def unify_parameters(left: Node, right: Node) -> tuple[Node, Node]:
    """Rename the parameter of one side to that of the other.

    This applies if only one side declares it as a parameter, or if it is the integer in multiples of pi.
    """
    one, two = symbols(left) - symbols(right), symbols(right) - symbols(left)
    if len(one) != 1 or len(two) != 1:
        return left, right
    is_multiple_of_pi = one | two <= INTEGER_NAMES and contains_pi(left) and contains_pi(right)
    if not is_multiple_of_pi and not any(name.startswith(PARAMETER) for name in one | two):
        return left, right
    new = Symbol(next(iter(two)))
    return map_leaves(
        left, lambda leaf: new if isinstance(leaf, Symbol) and leaf.name in one else leaf
    ), right


def contains_pi(node: Node) -> bool:
    return node == PI or any(contains_pi(child) for child in children(node))


def _stem(label: Node) -> str:
    """The label without its index: x_1 and x_2 are solutions for the same x."""
    return label.name.partition("_")[0] if isinstance(label, Symbol) else str(label)


def as_assignment(node: Node) -> Assignment | None:
    """The label and value of `x = 2`, `2 = x`, `f(x) = 2` or `Area = 2`, else None."""
    if not isinstance(node, Relation) or set(node.operators) != {"="}:
        return None
    first, last = node.sides[0], node.sides[-1]
    if is_label(first):
        return first, last
    return (last, first) if is_label(last) and len(node.sides) == 2 else None


def is_label(node: Node) -> bool:
    match node:
        case Symbol() | Text():
            return True
        case Call(name):
            return name.startswith(":")
        case Group("(", items, ")"):
            return all(isinstance(item, Symbol) for item in items)
        case _:
            return False


def as_system(node: Node) -> tuple[tuple[str, Node], ...] | None:
    """The names and values of x = 1, y = 2 or (x, y) = (1, 2), else None."""
    if pair := as_assignment(node):
        match pair:
            case (Group(_, names), Group(_, values)) if len(names) == len(values):
                return tuple((str(n), v) for n, v in zip(names, values, strict=True))
            case _:
                return None
    if not isinstance(node, Listing):
        return None
    pairs = [as_assignment(item) for item in node.items]
    named = [(str(pair[0]), pair[1]) for pair in pairs if pair and isinstance(pair[0], Symbol)]
    distinct = len({name for name, _ in named}) == len(pairs)
    return tuple(named) if distinct and len(pairs) > 1 else None


def expand_signs(node: Node) -> list[Node]:
    """The alternatives of plus-or-minus signs. Several `\\pm` are independent, unless there is a `\\mp`."""
    signs = _find_signs(node)
    if not signs:
        return [node]
    if len(signs) > MAX_SIGNS:
        raise ParseError("too many plus-or-minus signs")
    independent = len(signs) if all(sign.upper == 1 for sign in signs) else 1
    variants: list[Node] = []
    for choice in product((1, -1), repeat=independent):
        values = iter(choice if independent == len(signs) else choice * len(signs))
        one = map_leaves(node, lambda leaf, values=values: _choose_sign(leaf, values))
        if one not in variants:
            variants.append(one)
    return variants


def _choose_sign(leaf: Node, choices: Iterator[int]) -> Node:
    return Number(Fraction(leaf.upper * next(choices))) if isinstance(leaf, Sign) else leaf


def _find_signs(node: Node) -> list[Sign]:
    if isinstance(node, Sign):
        return [node]
    return [sign for child in children(node) for sign in _find_signs(child)]

"""Answers brought to a common shape: signs expanded, labels shared, parameters renamed."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from posttrain.runtime.grading.rebuild import rebuilt
from posttrain.runtime.grading.tree import (
    PI,
    Builder,
    Call,
    Group,
    Listing,
    NamedSet,
    Node,
    Number,
    Product,
    Relation,
    Sign,
    Symbol,
    Text,
    Unreadable,
    children,
    holds,
    symbols,
)

SIGNS_AT_MOST = 3
PARAMETER = "any integer"
COUNTERS = frozenset(("k", "m", "n"))
Assigned = tuple[Node, Node]


def shape(node: Node) -> Node:
    if isinstance(node, Listing):
        return _listing(node)
    match node:
        case Product((Symbol(name), Group("(", (_, _, *_)) as named)) if name[0].isupper():
            return named
        case Builder() if len(symbols(node)) == 1:
            return _with_parameters(node, list(symbols(node)))
        case _:
            pass
    if not holds(node, Sign):
        return node
    if isinstance(node, Group) and node.opening == "{":
        return Group("{", tuple(one for item in node.items for one in signed(item)), "}")
    # x != -1, 1 keeps off both.
    apart = isinstance(node, Relation) and "!=" in node.operators
    return shape(Listing(tuple(signed(node)), "and" if apart else "or"))


def _listing(node: Listing) -> Node:
    items = [one for item in node.items for one in signed(item)]
    parameters = [name for item in items if (name := _parameter(item, items))]
    items = [_with_parameters(item, parameters) for item in items if not _parameter(item, items)]
    items = _excluded(items)
    pairs = [assigned(item) for item in items]
    labels = [pair[0] for pair in pairs if pair]
    if labels and len(labels) == len(items) and len({_stem(label) for label in labels}) == 1:
        items = [pair[1] for pair in pairs if pair]
    elif rounds := _rounds(pairs):
        items = rounds
    elif len(labels) == 1 and (values := _together(items, pairs)):
        return values
    elif len(labels) == 1 and pairs[0] and not any(isinstance(item, Relation) for item in items[1:]):
        items[0] = pairs[0][1]
    return items[0] if len(items) == 1 else Listing(tuple(items), node.joint)


def _excluded(items: list[Node]) -> list[Node]:
    """x != 1, 2 says that x is neither."""
    match items[0] if items else None:
        case Relation((Symbol() as name, _), ("!=",)) if not any(isinstance(i, Relation) for i in items[1:]):
            return [items[0], *(Relation((name, item), ("!=",)) for item in items[1:])]
        case _:
            return items


def _rounds(pairs: list[Assigned | None]) -> list[Node] | None:
    """x = 1, y = 2 or x = 3, y = 4 as tuples: the labels come round more than once."""
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


def _together(items: list[Node], pairs: list[Assigned | None]) -> Node | None:
    """x, y = 1, 2 as a tuple of values."""
    half = len(items) // 2
    if len(items) != 2 * half + 1 or half == 0 or not (pair := pairs[half]):
        return None
    if not all(isinstance(item, Symbol) for item in items[:half]) or not isinstance(pair[0], Symbol):
        return None
    return Group("(", (pair[1], *items[half + 1 :]), ")")


def _parameter(item: Node, items: list[Node]) -> str | None:
    """The k of `k in Z` beside something that has k in it."""
    match item:
        case Relation((Symbol(name), NamedSet("integers" | "naturals")), ("in",)):
            return name if any(name in symbols(other) for other in items if other is not item) else None
        case _:
            return None


def _with_parameters(item: Node, names: list[str]) -> Node:
    """The parameter by a name of its own: which letter it has does not matter."""
    if not names:
        return item
    new = {name: Symbol(f"{PARAMETER} {place}") for place, name in enumerate(names)}
    return rebuilt(item, lambda leaf: new.get(leaf.name, leaf) if isinstance(leaf, Symbol) else leaf)


def matched(left: Node, right: Node) -> tuple[Node, Node]:
    """The two with one letter for the parameter, where only one of them says that it is one, or where it
    counts turns."""
    one, two = symbols(left) - symbols(right), symbols(right) - symbols(left)
    if len(one) != 1 or len(two) != 1:
        return left, right
    turns = one | two <= COUNTERS and holds_pi(left) and holds_pi(right)
    if not turns and not any(name.startswith(PARAMETER) for name in one | two):
        return left, right
    new = Symbol(next(iter(two)))
    return rebuilt(left, lambda leaf: new if isinstance(leaf, Symbol) and leaf.name in one else leaf), right


def holds_pi(node: Node) -> bool:
    return node == PI or any(holds_pi(child) for child in children(node))


def _stem(label: Node) -> str:
    """x_1 and x_2 are solutions of the same x."""
    return label.name.partition("_")[0] if isinstance(label, Symbol) else str(label)


def assigned(node: Node) -> Assigned | None:
    """`x = 2`, `2 = x`, `f(x) = 2`, `Area = 2` as label and value."""
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


def system(node: Node) -> tuple[tuple[str, Node], ...] | None:
    """x = 1, y = 2 and (x, y) = (1, 2) as names with values."""
    if pair := assigned(node):
        match pair:
            case (Group(_, names), Group(_, values)) if len(names) == len(values):
                return tuple((str(n), v) for n, v in zip(names, values, strict=True))
            case _:
                return None
    if not isinstance(node, Listing):
        return None
    pairs = [assigned(item) for item in node.items]
    named = [(str(pair[0]), pair[1]) for pair in pairs if pair and isinstance(pair[0], Symbol)]
    distinct = len({name for name, _ in named}) == len(pairs)
    return tuple(named) if distinct and len(pairs) > 1 else None


def signed(node: Node) -> list[Node]:
    """The alternatives that plus-or-minus stands for. Several `\\pm` vary apart, unless `\\mp` ties them."""
    signs = _signs(node)
    if not signs:
        return [node]
    if len(signs) > SIGNS_AT_MOST:
        raise Unreadable("too many plus-or-minus signs")
    apart = len(signs) if all(sign.upper == 1 for sign in signs) else 1
    made: list[Node] = []
    for choice in product((1, -1), repeat=apart):
        values = iter(choice if apart == len(signs) else choice * len(signs))
        one = rebuilt(node, lambda leaf, values=values: _chosen(leaf, values))
        if one not in made:
            made.append(one)
    return made


def _chosen(leaf: Node, choices: Iterator[int]) -> Node:
    return Number(Fraction(leaf.upper * next(choices))) if isinstance(leaf, Sign) else leaf


def _signs(node: Node) -> list[Sign]:
    if isinstance(node, Sign):
        return [node]
    return [sign for child in children(node) for sign in _signs(child)]

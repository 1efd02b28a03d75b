"""Sets of reals as sorted, disjoint intervals: what intervals, unions and inequalities come down to."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from posttrain.runtime.grading.context import Context, Outcome, both
from posttrain.runtime.grading.linear import FLIPPED, solved
from posttrain.runtime.grading.ring import Unsettled
from posttrain.runtime.grading.scalars import order, same
from posttrain.runtime.grading.shape import PARAMETER
from posttrain.runtime.grading.tree import (
    Builder,
    Call,
    Constant,
    Group,
    Listing,
    NamedSet,
    Node,
    Number,
    Product,
    Relation,
    SetOperation,
    Symbol,
    holds,
    negative,
    symbols,
)

INFINITY = Constant("infinity")
MINUS_INFINITY = Product((Number(Fraction(-1)), INFINITY))


@dataclass(frozen=True, slots=True)
class Piece:
    low: Node
    low_closed: bool
    high: Node
    high_closed: bool


Pieces = tuple[Piece, ...]
LINE: Pieces = (Piece(MINUS_INFINITY, False, INFINITY, False),)


def point(node: Node) -> Piece:
    return Piece(node, True, node, True)


def is_interval(node: Node) -> bool:
    return isinstance(node, Group) and len(node.items) == 2 and node.opening in "([" and node.closing in ")]"


def pieces(node: Node, context: Context) -> Pieces | None:
    """The set that a node describes, or None when it describes none. Raises Unsettled."""
    match node:
        case NamedSet("reals"):
            return LINE
        case NamedSet("empty"):
            return ()
        case Group("(" | "[", (low, high), ")" | "]"):
            return united([Piece(low, node.opening == "[", high, node.closing == "]")], context)
        case Group("{", items, "}"):
            return united([point(item) for item in items], context)
        case SetOperation(operator, left, right):
            return _operated(operator, pieces(left, context), pieces(right, context), context)
        case Relation(sides, ("in" | "notin" as operator,)):
            inner = pieces(sides[1], context)
            return inner if operator == "in" or inner is None else complement(inner)
        case Relation():
            return _chain(node, context)
        case Builder(Symbol() | Relation((Symbol(), _), ("in",)), condition):
            return _condition(condition, context)
        case Listing(items, joint):
            return _listed(items, joint, context)
        case _:
            return None


def _condition(condition: Node, context: Context) -> Pieces | None:
    if isinstance(condition, Listing):
        return _listed(condition.items, "or" if condition.joint == "or" else "and", context)
    return pieces(condition, context)


def _listed(items: tuple[Node, ...], joint: str, context: Context) -> Pieces | None:
    if not all(isinstance(item, Relation | SetOperation | NamedSet) or is_interval(item) for item in items):
        return None
    if len(frozenset[str]().union(*(symbols(item) for item in items))) > 1:
        return None
    parts = [pieces(item, context) for item in items]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    whole = united([piece for part in known for piece in part], context)
    if joint == "or" or (joint == "," and whole != LINE):
        return whole
    made = known[0]
    for part in known[1:]:
        made = intersection(made, part, context)
    return made


def _operated(operator: str, left: Pieces | None, right: Pieces | None, context: Context) -> Pieces | None:
    if left is None or right is None:
        return None
    if operator == "union":
        return united([*left, *right], context)
    return intersection(left, right if operator == "intersection" else complement(right), context)


def _chain(node: Relation, context: Context) -> Pieces | None:
    """1 < x <= 3, x != 2, 2x > 4: each link solved for the one variable."""
    made = LINE
    for link, operator in enumerate(node.operators):
        around = _around_zero(node.sides[link], operator, node.sides[link + 1], context)
        if around is not None:
            made = intersection(made, around, context)
            continue
        found = solved(node.sides[link], operator, node.sides[link + 1], context)
        if found is None:
            return None
        bound, direction = found
        made = intersection(made, _half_line(bound, direction), context)
    return made


def _around_zero(left: Node, operator: str, right: Node, context: Context) -> Pieces | None:
    """|u| < c as -c < u < c, and |u| > c as the rest."""
    if isinstance(right, Call):
        left, right, operator = right, left, FLIPPED.get(operator, "")
    match left:
        case Call("abs", (inner,)) if operator in ("<", "<=", ">", ">=") and not symbols(right):
            strict = "<" if operator in ("<", ">=") else "<="
            within = _chain(Relation((negative(right), inner, right), (strict, strict)), context)
            return within if within is None or operator[0] == "<" else complement(within)
        case _:
            return None


def _half_line(bound: Node, operator: str) -> Pieces:
    closed = operator.endswith("=")
    match operator:
        case "<" | "<=":
            return (Piece(MINUS_INFINITY, False, bound, closed and bound != INFINITY),)
        case ">" | ">=":
            return (Piece(bound, closed and bound != MINUS_INFINITY, INFINITY, False),)
        case "!=":
            return complement((point(bound),))
        case _:
            return (point(bound),)


def complement(parts: Pieces) -> Pieces:
    """The rest of the line; the pieces are sorted and disjoint."""
    made: list[Piece] = []
    low, closed = MINUS_INFINITY, False
    for piece in parts:
        if piece.low != MINUS_INFINITY:
            made.append(Piece(low, closed, piece.low, not piece.low_closed))
        low, closed = piece.high, not piece.high_closed
    if low != INFINITY:
        made.append(Piece(low, closed, INFINITY, False))
    return tuple(made)


def intersection(left: Pieces, right: Pieces, context: Context) -> Pieces:
    made = [_meet(one, two, context) for one in left for two in right]
    return united([piece for piece in made if piece is not None], context)


def _meet(one: Piece, two: Piece, context: Context) -> Piece | None:
    lower, upper = order(one.low, two.low, context), order(one.high, two.high, context)
    low = one if lower > 0 or (lower == 0 and not one.low_closed) else two
    high = one if upper < 0 or (upper == 0 and not one.high_closed) else two
    made = Piece(low.low, low.low_closed, high.high, high.high_closed)
    return made if _has_points(made, context) else None


def _has_points(piece: Piece, context: Context) -> bool:
    gap = order(piece.low, piece.high, context)
    return gap < 0 or (gap == 0 and piece.low_closed and piece.high_closed)


def united(parts: list[Piece], context: Context) -> Pieces:
    """Sorted, with pieces that overlap or touch joined."""
    kept = [piece for piece in parts if _has_points(piece, context)]

    def earlier(one: Piece, two: Piece) -> int:
        return order(one.low, two.low, context) or two.low_closed - one.low_closed

    made: list[Piece] = []
    for piece in sorted(kept, key=cmp_to_key(earlier)):
        if made and _touches(made[-1], piece, context):
            made[-1] = _joined(made[-1], piece, context)
        else:
            made.append(piece)
    return tuple(made)


def _touches(first: Piece, second: Piece, context: Context) -> bool:
    gap = order(second.low, first.high, context)
    return gap < 0 or (gap == 0 and (first.high_closed or second.low_closed))


def _joined(first: Piece, second: Piece, context: Context) -> Piece:
    upper = order(first.high, second.high, context)
    high = first if upper > 0 or (upper == 0 and first.high_closed) else second
    return Piece(first.low, first.low_closed, high.high, high.high_closed)


def compare_sets(left: Node, right: Node, context: Context) -> Outcome | None:
    """Whether two nodes describe the same set of reals; None when one of them describes none."""
    apart = _named(left) != _named(right)
    if holds(left, Relation) and holds(right, Relation) and _named(left) and _named(right) and apart:
        return Outcome(False, "sets of values of different variables")
    try:
        one, two = pieces(left, context), pieces(right, context)
        if one is None or two is None:
            return None
        if len(one) != len(two):
            return Outcome(False, "different sets of real numbers")
        if not one:
            return Outcome(True, "both sets are empty")
        return both([_same_piece(a, b, context) for a, b in zip(one, two, strict=True)])
    except Unsettled as reason:
        return Outcome(None, str(reason))


def _named(node: Node) -> set[str]:
    """The variables, but for those that only a set-builder binds."""
    return {name for name in symbols(node) if not name.startswith(PARAMETER)}


def _same_piece(one: Piece, two: Piece, context: Context) -> Outcome:
    if (one.low_closed, one.high_closed) != (two.low_closed, two.high_closed):
        return Outcome(False, "one interval has an endpoint that the other leaves out")
    return both([same(one.low, two.low, context), same(one.high, two.high, context)])

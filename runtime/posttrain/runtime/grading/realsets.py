"""From what an answer says (intervals, unions, inequalities) to the set of reals that it describes."""

from posttrain.runtime.grading.context import Context, Outcome, both
from posttrain.runtime.grading.linear import FLIPPED, solved
from posttrain.runtime.grading.pieces import (
    LINE,
    Piece,
    Pieces,
    complement,
    half_line,
    intersection,
    point,
    united,
)
from posttrain.runtime.grading.ring import Unsettled
from posttrain.runtime.grading.scalars import same
from posttrain.runtime.grading.shape import PARAMETER
from posttrain.runtime.grading.signs import where
from posttrain.runtime.grading.tree import (
    Builder,
    Call,
    Group,
    Listing,
    NamedSet,
    Node,
    Relation,
    SetOperation,
    Symbol,
    holds,
    negative,
    symbols,
)


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
            return conditioned(condition, context)
        case Listing(items, joint):
            return _listed(items, joint, context)
        case _:
            return None


def conditioned(condition: Node, context: Context) -> Pieces | None:
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
        half = (
            half_line(*found) if found else where(node.sides[link], operator, node.sides[link + 1], context)
        )
        if half is None:
            return None
        made = intersection(made, half, context)
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


def compare_sets(left: Node, right: Node, context: Context) -> Outcome | None:
    """Whether two nodes describe the same set of reals; None when one of them describes none."""
    apart = _named(left) != _named(right)
    if holds(left, Relation) and holds(right, Relation) and _named(left) and _named(right) and apart:
        return Outcome(False, "sets of values of different variables")
    try:
        one, two = pieces(left, context), pieces(right, context)
        if one is None or two is None:
            return None
        return same_set(one, two, context)
    except Unsettled as reason:
        return Outcome(None, str(reason))


def same_set(one: Pieces, two: Pieces, context: Context) -> Outcome:
    if len(one) != len(two):
        return Outcome(False, "different sets of real numbers")
    if not one:
        return Outcome(True, "both sets are empty")
    return both([_same_piece(a, b, context) for a, b in zip(one, two, strict=True)])


def _named(node: Node) -> set[str]:
    """The variables, but for those that only a set-builder binds."""
    return {name for name in symbols(node) if not name.startswith(PARAMETER)}


def _same_piece(one: Piece, two: Piece, context: Context) -> Outcome:
    if (one.low_closed, one.high_closed) != (two.low_closed, two.high_closed):
        return Outcome(False, "one interval has an endpoint that the other leaves out")
    return both([same(one.low, two.low, context), same(one.high, two.high, context)])

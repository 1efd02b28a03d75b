"""Sets of reals as sorted, disjoint intervals, and the algebra on them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from posttrain.runtime.grading.context import Context
from posttrain.runtime.grading.scalars import order
from posttrain.runtime.grading.tree import Constant, Node, Number, Product

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


def half_line(bound: Node, operator: str) -> Pieces:
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

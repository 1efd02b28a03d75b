"""Sets of reals as sorted, disjoint intervals, and the algebra on them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from posttrain.grading.context import Context
from posttrain.grading.expression_tree import Constant, Node, Number, Product
from posttrain.grading.scalars import order_scalars

INFINITY = Constant("infinity")
MINUS_INFINITY = Product((Number(Fraction(-1)), INFINITY))


@dataclass(frozen=True, slots=True)
class Interval:
    low: Node
    low_closed: bool
    high: Node
    high_closed: bool


IntervalSet = tuple[Interval, ...]
REAL_LINE: IntervalSet = (Interval(MINUS_INFINITY, False, INFINITY, False),)


def point_interval(node: Node) -> Interval:
    return Interval(node, True, node, True)


def half_line(bound: Node, operator: str) -> IntervalSet:
    closed = operator.endswith("=")
    match operator:
        case "<" | "<=":
            return (Interval(MINUS_INFINITY, False, bound, closed and bound != INFINITY),)
        case ">" | ">=":
            return (Interval(bound, closed and bound != MINUS_INFINITY, INFINITY, False),)
        case "!=":
            return complement((point_interval(bound),))
        case _:
            return (point_interval(bound),)


def complement(parts: IntervalSet) -> IntervalSet:
    """The rest of the line; the pieces are sorted and disjoint."""
    made: list[Interval] = []
    low, closed = MINUS_INFINITY, False
    for piece in parts:
        if piece.low != MINUS_INFINITY:
            made.append(Interval(low, closed, piece.low, not piece.low_closed))
        low, closed = piece.high, not piece.high_closed
    if low != INFINITY:
        made.append(Interval(low, closed, INFINITY, False))
    return tuple(made)


def intersection(left: IntervalSet, right: IntervalSet, context: Context) -> IntervalSet:
    made = [_intersect(one, two, context) for one in left for two in right]
    return union([piece for piece in made if piece is not None], context)


def _intersect(one: Interval, two: Interval, context: Context) -> Interval | None:
    lower, upper = order_scalars(one.low, two.low, context), order_scalars(one.high, two.high, context)
    low = one if lower > 0 or (lower == 0 and not one.low_closed) else two
    high = one if upper < 0 or (upper == 0 and not one.high_closed) else two
    made = Interval(low.low, low.low_closed, high.high, high.high_closed)
    return made if _has_points(made, context) else None


def _has_points(piece: Interval, context: Context) -> bool:
    gap = order_scalars(piece.low, piece.high, context)
    return gap < 0 or (gap == 0 and piece.low_closed and piece.high_closed)


def union(parts: list[Interval], context: Context) -> IntervalSet:
    """Sorted, with pieces that overlap or touch joined."""
    kept = [piece for piece in parts if _has_points(piece, context)]

    def earlier(one: Interval, two: Interval) -> int:
        return order_scalars(one.low, two.low, context) or two.low_closed - one.low_closed

    made: list[Interval] = []
    for piece in sorted(kept, key=cmp_to_key(earlier)):
        if made and _touches(made[-1], piece, context):
            made[-1] = _merge(made[-1], piece, context)
        else:
            made.append(piece)
    return tuple(made)


def _touches(first: Interval, second: Interval, context: Context) -> bool:
    gap = order_scalars(second.low, first.high, context)
    return gap < 0 or (gap == 0 and (first.high_closed or second.low_closed))


def _merge(first: Interval, second: Interval, context: Context) -> Interval:
    upper = order_scalars(first.high, second.high, context)
    high = first if upper > 0 or (upper == 0 and first.high_closed) else second
    return Interval(first.low, first.low_closed, high.high, high.high_closed)

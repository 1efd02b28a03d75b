"""Sets of reals as sorted, disjoint intervals, with complement, intersection and union."""

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
    """The complement in the real line. The intervals must be sorted and disjoint."""
    result: list[Interval] = []
    low, closed = MINUS_INFINITY, False
    for interval in parts:
        if interval.low != MINUS_INFINITY:
            result.append(Interval(low, closed, interval.low, not interval.low_closed))
        low, closed = interval.high, not interval.high_closed
    if low != INFINITY:
        result.append(Interval(low, closed, INFINITY, False))
    return tuple(result)


def intersection(left: IntervalSet, right: IntervalSet, context: Context) -> IntervalSet:
    overlaps = [_intersect(one, two, context) for one in left for two in right]
    return union([interval for interval in overlaps if interval is not None], context)


def _intersect(one: Interval, two: Interval, context: Context) -> Interval | None:
    lower, upper = order_scalars(one.low, two.low, context), order_scalars(one.high, two.high, context)
    low = one if lower > 0 or (lower == 0 and not one.low_closed) else two
    high = one if upper < 0 or (upper == 0 and not one.high_closed) else two
    overlap = Interval(low.low, low.low_closed, high.high, high.high_closed)
    return overlap if _has_points(overlap, context) else None


def _has_points(interval: Interval, context: Context) -> bool:
    gap = order_scalars(interval.low, interval.high, context)
    return gap < 0 or (gap == 0 and interval.low_closed and interval.high_closed)


def union(parts: list[Interval], context: Context) -> IntervalSet:
    """Sort the intervals, and merge those that overlap or touch."""
    nonempty = [interval for interval in parts if _has_points(interval, context)]

    def earlier(one: Interval, two: Interval) -> int:
        return order_scalars(one.low, two.low, context) or two.low_closed - one.low_closed

    result: list[Interval] = []
    for interval in sorted(nonempty, key=cmp_to_key(earlier)):
        if result and _touches(result[-1], interval, context):
            result[-1] = _merge(result[-1], interval, context)
        else:
            result.append(interval)
    return tuple(result)


def _touches(first: Interval, second: Interval, context: Context) -> bool:
    gap = order_scalars(second.low, first.high, context)
    return gap < 0 or (gap == 0 and (first.high_closed or second.low_closed))


def _merge(first: Interval, second: Interval, context: Context) -> Interval:
    upper = order_scalars(first.high, second.high, context)
    high = first if upper > 0 or (upper == 0 and first.high_closed) else second
    return Interval(first.low, first.low_closed, high.high, high.high_closed)

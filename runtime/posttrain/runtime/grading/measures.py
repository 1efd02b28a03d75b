"""Percentages, quantities with units, money, ratios."""

from collections.abc import Sequence
from fractions import Fraction

from posttrain.runtime.grading.context import Context, Outcome, any_of, both
from posttrain.runtime.grading.scalars import same
from posttrain.runtime.grading.tree import (
    DEGREE,
    Call,
    Constant,
    Node,
    Number,
    Percent,
    Product,
    Quantity,
    Quotient,
    Ratio,
    Text,
    holds,
    holds_call,
)
from posttrain.runtime.grading.units import Measure, measure

INVERSE = frozenset(("asin", "acos", "atan", "acot", "asec", "acsc"))
ANGLE, RADIAN = (("angle", 1),), (("radian", 1),)
HUNDRED = Number(Fraction(100))


def percentages(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Percent) and isinstance(right, Percent):
        return context.compare(left.value, right.value, context)
    if isinstance(left, Quantity) or isinstance(right, Quantity):
        return None
    if isinstance(left, Percent) and not isinstance(right, Text):
        return any_of([context.compare(value, right, context) for value in _values(left, context)])
    if isinstance(right, Percent) and not isinstance(left, Text):
        return any_of([context.compare(left, value, context) for value in _values(right, context)])
    return None


def _values(node: Percent, context: Context) -> Sequence[Node]:
    number, fraction = node.value, Quotient(node.value, HUNDRED)
    return {"either": [number, fraction], "number": [number], "fraction": [fraction]}[context.options.percent]


def quantities(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return _two(left, right, context)
    if isinstance(left, Percent) or isinstance(right, Percent):
        return None
    if isinstance(left, Quantity) and not isinstance(right, Text):
        return _one(left, right, context, swapped=False)
    if isinstance(right, Quantity) and not isinstance(left, Text):
        return _one(right, left, context, swapped=True)
    return None


def _two(left: Quantity, right: Quantity, context: Context) -> Outcome:
    plain = context.compare(left.value, right.value, context)
    if context.options.units == "ignore" or _words(left.unit) == _words(right.unit):
        return plain
    one, two = measure(left.unit), measure(right.unit)
    if one and two:
        return _converted(left, right, one, two, context)
    if one is None and two is None and not _related(left.unit, right.unit):
        return Outcome(False, f"'{left.unit}' is not '{right.unit}'")
    return plain


def _converted(left: Quantity, right: Quantity, one: Measure, two: Measure, context: Context) -> Outcome:
    if {one.dimensions, two.dimensions} == {ANGLE, RADIAN}:
        values: list[Node] = [
            Product((side.value, DEGREE)) if size.dimensions == ANGLE else side.value
            for side, size in ((left, one), (right, two))
        ]
        return context.compare(values[0], values[1], context)
    if one.dimensions != two.dimensions:
        return Outcome(False, f"'{left.unit}' does not measure what '{right.unit}' does")
    return context.compare(
        Product((left.value, Number(one.factor))), Product((right.value, Number(two.factor))), context
    )


def _one(quantity: Quantity, other: Node, context: Context, swapped: bool) -> Outcome:
    if context.options.units == "require":
        return Outcome(False, f"only one side says '{quantity.unit}'")
    values: list[Node] = [quantity.value]
    if quantity.unit == "deg" and (holds(other, Constant) or holds_call(other, INVERSE)):
        values.append(Product((quantity.value, DEGREE)))
    pairs = [(other, value) if swapped else (value, other) for value in values]
    return any_of([context.compare(one, two, context) for one, two in pairs])


def _words(unit: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in unit.lower().replace(",", " ").split())


def _related(one: str, two: str) -> bool:
    """`apples` and `red apples` may be the same apples; `apples` and `pears` are not."""
    first, second = _words(one), _words(two)
    return first <= second or second <= first


def ratios(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Ratio) and isinstance(right, Ratio):
        return _two_ratios(left.parts, right.parts, context)
    ratio, other = (left, right) if isinstance(left, Ratio) else (right, left)
    if not isinstance(ratio, Ratio) or len(ratio.parts) != 2:
        return None
    if isinstance(other, Quotient | Number | Call | Product):
        return same(Quotient(*ratio.parts), other, context)
    return None


def _two_ratios(one: tuple[Node, ...], two: tuple[Node, ...], context: Context) -> Outcome:
    if len(one) != len(two):
        return Outcome(False, "ratios of different length")
    return both(
        [
            same(Product((one[0], second)), Product((two[0], first)), context)
            for first, second in zip(one[1:], two[1:], strict=True)
        ]
    )

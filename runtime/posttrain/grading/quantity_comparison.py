"""Compares percentages, quantities with units, amounts of money, and ratios."""

from collections.abc import Sequence
from fractions import Fraction

from posttrain.grading.context import Context, Outcome, all_of, any_of
from posttrain.grading.expression_tree import (
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
    contains_call,
    contains_node,
)
from posttrain.grading.scalars import compare_scalars
from posttrain.grading.units import Unit, parse_unit

INVERSE_TRIGONOMETRIC = frozenset(("asin", "acos", "atan", "acot", "asec", "acsc"))
ANGLE, RADIAN = (("angle", 1),), (("radian", 1),)
HUNDRED = Number(Fraction(100))


def percentage_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Percent) and isinstance(right, Percent):
        return context.compare(left.value, right.value, context)
    if isinstance(left, Quantity) or isinstance(right, Quantity):
        return None
    if isinstance(left, Percent) and not isinstance(right, Text):
        return any_of([context.compare(value, right, context) for value in _percent_values(left, context)])
    if isinstance(right, Percent) and not isinstance(left, Text):
        return any_of([context.compare(left, value, context) for value in _percent_values(right, context)])
    return None


def _percent_values(node: Percent, context: Context) -> Sequence[Node]:
    number, fraction = node.value, Quotient(node.value, HUNDRED)
    return {"either": [number, fraction], "number": [number], "fraction": [fraction]}[context.options.percent]


def quantity_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return _compare_quantities(left, right, context)
    if isinstance(left, Percent) or isinstance(right, Percent):
        return None
    if isinstance(left, Quantity) and not isinstance(right, Text):
        return _compare_with_bare_value(left, right, context, swapped=False)
    if isinstance(right, Quantity) and not isinstance(left, Text):
        return _compare_with_bare_value(right, left, context, swapped=True)
    return None


def _compare_quantities(left: Quantity, right: Quantity, context: Context) -> Outcome:
    outcome = context.compare(left.value, right.value, context)
    if context.options.units == "ignore" or _unit_words(left.unit) == _unit_words(right.unit):
        return outcome
    one, two = parse_unit(left.unit), parse_unit(right.unit)
    if one and two:
        return _compare_converted(left, right, one, two, context)
    if not (one and two) and not _units_overlap(left.unit, right.unit):
        return Outcome(False, f"different units '{left.unit}' and '{right.unit}'")
    return outcome


def _compare_converted(left: Quantity, right: Quantity, one: Unit, two: Unit, context: Context) -> Outcome:
    if {one.dimensions, two.dimensions} == {ANGLE, RADIAN}:
        values: list[Node] = [
            Product((side.value, DEGREE)) if size.dimensions == ANGLE else side.value
            for side, size in ((left, one), (right, two))
        ]
        return context.compare(values[0], values[1], context)
    if one.dimensions != two.dimensions:
        return Outcome(False, f"units '{left.unit}' and '{right.unit}' of different dimensions")
    return context.compare(
        Product((left.value, Number(one.factor))), Product((right.value, Number(two.factor))), context
    )


def _compare_with_bare_value(quantity: Quantity, other: Node, context: Context, swapped: bool) -> Outcome:
    if context.options.units == "require":
        return Outcome(False, f"only one side has the unit '{quantity.unit}'")
    values: list[Node] = [quantity.value]
    if quantity.unit == "deg" and (
        contains_node(other, Constant) or contains_call(other, INVERSE_TRIGONOMETRIC)
    ):
        values.append(Product((quantity.value, DEGREE)))
    pairs = [(other, value) if swapped else (value, other) for value in values]
    return any_of([context.compare(one, two, context) for one, two in pairs])


def _unit_words(unit: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in unit.lower().replace(",", " ").split())


def _units_overlap(one: str, two: str) -> bool:
    """Whether one unit contains all words of the other, such as `apples` and `red apples`."""
    first, second = _unit_words(one), _unit_words(two)
    return first <= second or second <= first


def ratio_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    if isinstance(left, Ratio) and isinstance(right, Ratio):
        return _compare_ratios(left.parts, right.parts, context)
    ratio, other = (left, right) if isinstance(left, Ratio) else (right, left)
    if not isinstance(ratio, Ratio) or len(ratio.parts) != 2:
        return None
    if isinstance(other, Quotient | Number | Call | Product):
        return compare_scalars(Quotient(*ratio.parts), other, context)
    return None


def _compare_ratios(one: tuple[Node, ...], two: tuple[Node, ...], context: Context) -> Outcome:
    if len(one) != len(two):
        return Outcome(False, "ratios of different length")
    return all_of(
        [
            compare_scalars(Product((one[0], second)), Product((two[0], first)), context)
            for first, second in zip(one[1:], two[1:], strict=True)
        ]
    )

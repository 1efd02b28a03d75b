"""Compares two scalars: numbers or expressions."""

from fractions import Fraction

from posttrain.grading.context import Context, Outcome
from posttrain.grading.exact_arithmetic import evaluate_exactly, is_decisive
from posttrain.grading.expression_tree import (
    Call,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    contains_node,
    symbols,
)
from posttrain.grading.magnitude import IMMENSE_BITS, approximate, immense_sign
from posttrain.grading.options import Options
from posttrain.grading.rational_functions import RationalFunction, Undecided, Undefined, as_rational, equal

FLOAT_DIGITS = 15
FLOAT_ERROR = Fraction(1, 10**12)
TRUNCATED_DIGITS = 2
ROUNDED_ALLOWANCE = 2
NEVER_DECIMAL = Constant | Power | Call

SAME_EXPRESSION = Outcome(True, "the same expression")
EXACTLY_EQUAL = Outcome(True, "equal in exact arithmetic")


def compare_scalars(left: Node, right: Node, context: Context) -> Outcome:
    if left == right:
        return SAME_EXPRESSION
    infinite = infinity_sign(left), infinity_sign(right)
    if any(infinite):
        return _compare_infinities(*infinite)
    try:
        return _compare_exactly(left, right, context)
    except Undefined:
        return Outcome(False, "one side divides by zero")
    except Undecided as reason:
        return _compare_undecided(left, right, str(reason), context)


def _compare_exactly(left: Node, right: Node, context: Context) -> Outcome:
    first, second = evaluate_exactly(left, context.budget), evaluate_exactly(right, context.budget)
    if equal(first, second, context.budget):
        return EXACTLY_EQUAL
    near = _compare_within_tolerance(left, right, (approximate(first), approximate(second)), context)
    if near is not None:
        return near
    if is_decisive(first) and is_decisive(second):
        return Outcome(False, _difference_reason(first, second))
    return _compare_symbolically(left, right, "exact arithmetic cannot decide", context)


def _difference_reason(first: RationalFunction, second: RationalFunction) -> str:
    one, two = as_rational(first), as_rational(second)
    if one is None or two is None:
        return "different in exact arithmetic"
    if max(abs(part).bit_length() for x in (one, two) for part in (x.numerator, x.denominator)) > 200:
        return "different numbers"
    return f"{one} is not {two}"


def _compare_undecided(left: Node, right: Node, reason: str, context: Context) -> Outcome:
    large = _compare_immense(left, right, context)
    if large is not None:
        return large
    near = _compare_within_tolerance(left, right, (None, None), context)
    return near if near is not None else _compare_symbolically(left, right, reason, context)


def _compare_symbolically(left: Node, right: Node, reason: str, context: Context) -> Outcome:
    return context.symbolic.compare(left, right) if context.symbolic else Outcome(None, reason)


def infinity_sign(node: Node) -> int:
    if node == Constant("infinity"):
        return 1
    if isinstance(node, Product) and len(node.factors) == 2 and node.factors[1] == Constant("infinity"):
        first = node.factors[0]
        return (1 if first.value > 0 else -1) if isinstance(first, Number) else 0
    return 0


def _compare_infinities(left: int, right: int) -> Outcome:
    if left == right:
        return Outcome(True, "the same infinity")
    return Outcome(False, "one side is infinite" if not (left and right) else "infinities of opposite sign")


def _compare_immense(left: Node, right: Node, context: Context) -> Outcome | None:
    """Compares numbers that are too large to compute, by their size or their parts."""
    try:
        sizes = immense_sign(left, context.budget), immense_sign(right, context.budget)
        if not any(sizes):
            return None
        if sizes[0] and sizes[1]:
            return (
                _compare_parts(left, right, context)
                if sizes[0] == sizes[1]
                else Outcome(False, "opposite signs")
            )
        small = _value(right if sizes[0] else left, context)
        if small is not None and small.numerator.bit_length() < IMMENSE_BITS:
            return Outcome(False, f"only one side is larger than 2^{IMMENSE_BITS} in magnitude")
    except (Undecided, Undefined):
        pass
    return None


def _compare_parts(left: Node, right: Node, context: Context) -> Outcome | None:
    match left, right:
        case Power(base, one), Power(other, two) if compare_scalars(base, other, context).equal:
            return compare_scalars(one, two, context)
        case Call("factorial", (one,)), Call("factorial", (two,)):
            return compare_scalars(one, two, context)
        case _:
            return None


def _compare_within_tolerance(
    left: Node, right: Node, known: tuple[Fraction | None, Fraction | None], context: Context
) -> Outcome | None:
    """An outcome if both are equal within the tolerance or rounding of the options, else None."""
    options = context.options
    tolerant = options.rel_tol > 0 or options.abs_tol > 0
    decimals = (
        _decimal(left, options, False),
        _decimal(right, options, True, contains_node(left, NEVER_DECIMAL)),
    )
    if not tolerant and decimals == (None, None):
        return None
    values = [
        value if value is not None else context.symbolic.value(node) if context.symbolic else None
        for value, node in zip(known, (left, right), strict=True)
    ]
    first, second = values
    if first is None or second is None:
        closed = not (symbols(left) or symbols(right))
        return Outcome(None, "a decimal compared with a value that is not rational") if closed else None
    if tolerant and abs(first - second) <= max(
        Fraction(options.abs_tol), Fraction(options.rel_tol) * abs(second)
    ):
        return Outcome(True, "equal within the tolerance")
    return _compare_rounded(decimals, (first, second))


Decimal = tuple[Fraction, int]  # a unit in the last place, and the significant digits


def _compare_rounded(
    decimals: tuple[Decimal | None, Decimal | None], values: tuple[Fraction, Fraction]
) -> Outcome | None:
    for own, other, written, value in (
        (decimals[0], decimals[1], values[0], values[1]),
        (decimals[1], decimals[0], values[1], values[0]),
    ):
        if own is None or (other is not None and other[1] <= own[1] < FLOAT_DIGITS):
            continue
        unit, digits = own
        gap = abs(value) - abs(written)
        if digits >= FLOAT_DIGITS:
            unit = max(unit, abs(written) * FLOAT_ERROR)
        if written * value >= 0 and (abs(gap) <= unit / 2 or 0 <= gap < unit):
            return Outcome(True, f"equal to {digits} significant digits")
    return None


def _decimal(node: Node, options: Options, reference: bool, rounded: bool = False) -> Decimal | None:
    """The unit and digits of a decimal that may be a rounded value, else None.

    rounded: the other side contains a root, a function or a constant such as pi, so that a decimal equal to
    it must be rounded.
    """
    number, scale = _literal(node)
    if number is None or number.decimal_places is None:
        return None
    unit = Fraction(1, 10**number.decimal_places)
    digits = len(str(abs(number.value / unit).numerator)) if number.value else 0
    min_digits = TRUNCATED_DIGITS if number.truncated else options.min_digits - ROUNDED_ALLOWANCE * rounded
    if options.rounding == "reference" and reference:
        min_digits = 1
    if options.rounding == "off" or digits < min_digits:
        return None
    return unit * scale, digits


def _literal(node: Node) -> tuple[Number | None, Fraction]:
    """A decimal literal and its scale: alone, times a power of ten, or a percentage."""
    match node:
        case Number():
            return node, Fraction(1)
        case Product((Number() as number, Power(Number(ten, None), Number(exponent, None)))) if (
            ten == 10 and exponent.denominator == 1 and abs(exponent) < 1000
        ):
            return number, Fraction(10) ** int(exponent)
        case Product((Number(sign, None), Product() as rest)) if abs(sign) == 1:
            return _literal(rest)
        case Quotient(over, Number(under, None)) if under == 100:
            number, scale = _literal(over)
            return number, scale / 100
        case _:
            return None, Fraction(1)


def order_scalars(left: Node, right: Node, context: Context) -> int:
    """-1, 0 or 1 as left is less than, equal to or greater than right. Raises Undecided."""
    infinite = infinity_sign(left), infinity_sign(right)
    if any(infinite):
        return (infinite[0] > infinite[1]) - (infinite[0] < infinite[1])
    verdict = compare_scalars(left, right, context)
    if verdict.equal:
        return 0
    if verdict.equal is None:
        raise Undecided(verdict.reason)
    values = [_value(node, context) for node in (left, right)]
    if values[0] is None or values[1] is None:
        raise Undecided("an endpoint of unknown value")
    return 1 if values[0] > values[1] else -1


def _value(node: Node, context: Context) -> Fraction | None:
    if isinstance(node, Number):
        return node.value
    try:
        known = approximate(evaluate_exactly(node, context.budget))
    except (Undecided, Undefined):
        known = None
    return known if known is not None or context.symbolic is None else context.symbolic.value(node)

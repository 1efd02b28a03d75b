"""Two scalars: are they the same number, or the same expression?"""

from fractions import Fraction

from posttrain.runtime.grading.context import Context, Outcome
from posttrain.runtime.grading.exact import exact, settles
from posttrain.runtime.grading.magnitude import IMMENSE_BITS, approximate, immense
from posttrain.runtime.grading.options import Options
from posttrain.runtime.grading.ring import Undefined, Unsettled, Value, as_rational, equal
from posttrain.runtime.grading.tree import (
    Call,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    holds,
    symbols,
)

FLOAT_DIGITS = 15
FLOAT_ERROR = Fraction(1, 10**12)
CUT_DIGITS = 2
FEWER_DIGITS = 2
NEVER_DECIMAL = Constant | Power | Call

SAME = Outcome(True, "the same expression")
EQUAL = Outcome(True, "equal in exact arithmetic")


def same(left: Node, right: Node, context: Context) -> Outcome:
    if left == right:
        return SAME
    endless = infinite(left), infinite(right)
    if any(endless):
        return _endless(*endless)
    try:
        return _settled(left, right, context)
    except Undefined:
        return Outcome(False, "one side divides by zero")
    except Unsettled as reason:
        return _unsettled(left, right, str(reason), context)


def _settled(left: Node, right: Node, context: Context) -> Outcome:
    first, second = exact(left, context.budget), exact(right, context.budget)
    if equal(first, second, context.budget):
        return EQUAL
    near = _near(left, right, (approximate(first), approximate(second)), context)
    if near is not None:
        return near
    if settles(first) and settles(second):
        return Outcome(False, _difference(first, second))
    return _symbolic(left, right, "exact arithmetic does not settle it", context)


def _difference(first: Value, second: Value) -> str:
    one, two = as_rational(first), as_rational(second)
    if one is None or two is None:
        return "different in exact arithmetic"
    if max(abs(part).bit_length() for x in (one, two) for part in (x.numerator, x.denominator)) > 200:
        return "different numbers"
    return f"{one} is not {two}"


def _unsettled(left: Node, right: Node, reason: str, context: Context) -> Outcome:
    large = _beyond(left, right, context)
    if large is not None:
        return large
    near = _near(left, right, (None, None), context)
    return near if near is not None else _symbolic(left, right, reason, context)


def _symbolic(left: Node, right: Node, reason: str, context: Context) -> Outcome:
    return context.symbolic.same(left, right) if context.symbolic else Outcome(None, reason)


def infinite(node: Node) -> int:
    if node == Constant("infinity"):
        return 1
    if isinstance(node, Product) and len(node.factors) == 2 and node.factors[1] == Constant("infinity"):
        first = node.factors[0]
        return (1 if first.value > 0 else -1) if isinstance(first, Number) else 0
    return 0


def _endless(left: int, right: int) -> Outcome:
    if left == right:
        return Outcome(True, "the same infinity")
    return Outcome(False, "one side is infinite" if not (left and right) else "infinities of opposite sign")


def _beyond(left: Node, right: Node, context: Context) -> Outcome | None:
    """Numbers too large to write out: decided by size, or by their parts."""
    try:
        sizes = immense(left, context.budget), immense(right, context.budget)
        if not any(sizes):
            return None
        if sizes[0] and sizes[1]:
            return _parts(left, right, context) if sizes[0] == sizes[1] else Outcome(False, "opposite signs")
        small = _value(right if sizes[0] else left, context)
        if small is not None and small.numerator.bit_length() < IMMENSE_BITS:
            return Outcome(False, f"one side is beyond 2^{IMMENSE_BITS}, the other is not")
    except (Unsettled, Undefined):
        pass
    return None


def _parts(left: Node, right: Node, context: Context) -> Outcome | None:
    match left, right:
        case Power(base, one), Power(other, two) if same(base, other, context).equal:
            return same(one, two, context)
        case Call("factorial", (one,)), Call("factorial", (two,)):
            return same(one, two, context)
        case _:
            return None


def _near(
    left: Node, right: Node, known: tuple[Fraction | None, Fraction | None], context: Context
) -> Outcome | None:
    """Whether the two are the same by a declared tolerance; None when none applies or they are apart."""
    options = context.options
    tolerant = options.relative > 0 or options.absolute > 0
    decimals = _decimal(left, options, False), _decimal(right, options, True, holds(left, NEVER_DECIMAL))
    if not tolerant and decimals == (None, None):
        return None
    values = [
        value if value is not None else context.symbolic.value(node) if context.symbolic else None
        for value, node in zip(known, (left, right), strict=True)
    ]
    first, second = values
    if first is None or second is None:
        closed = not (symbols(left) or symbols(right))
        return Outcome(None, "a decimal against a value that is not rational") if closed else None
    if tolerant and abs(first - second) <= max(
        Fraction(options.absolute), Fraction(options.relative) * abs(second)
    ):
        return Outcome(True, "equal within the declared tolerance")
    return _rounds(decimals, (first, second))


Decimal = tuple[Fraction, int]  # a unit in the last place, and the significant digits


def _rounds(
    decimals: tuple[Decimal | None, Decimal | None], values: tuple[Fraction, Fraction]
) -> Outcome | None:
    for mine, other, written, value in (
        (decimals[0], decimals[1], values[0], values[1]),
        (decimals[1], decimals[0], values[1], values[0]),
    ):
        if mine is None or (other is not None and other[1] <= mine[1] < FLOAT_DIGITS):
            continue
        unit, digits = mine
        gap = abs(value) - abs(written)
        if digits >= FLOAT_DIGITS:
            unit = max(unit, abs(written) * FLOAT_ERROR)
        if written * value >= 0 and (abs(gap) <= unit / 2 or 0 <= gap < unit):
            return Outcome(True, f"equal to the {digits} digits written")
    return None


def _decimal(node: Node, options: Options, reference: bool, rounded: bool = False) -> Decimal | None:
    """The last place of a decimal that may stand for a longer value. `rounded`: the other side is a root, or
    has pi in it, so that a decimal beside it can only be a rounded one."""
    number, scale = _literal(node)
    if number is None or number.places is None:
        return None
    unit = Fraction(1, 10**number.places)
    digits = len(str(abs(number.value / unit).numerator)) if number.value else 0
    least = CUT_DIGITS if number.cut else options.digits - FEWER_DIGITS * rounded
    if options.rounding == "reference" and reference:
        least = 1
    if options.rounding == "off" or digits < least:
        return None
    return unit * scale, digits


def _literal(node: Node) -> tuple[Number | None, Fraction]:
    """A decimal, alone or times a power of ten."""
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


def order(left: Node, right: Node, context: Context) -> int:
    """-1, 0 or 1 for real numbers and infinities; raises Unsettled."""
    endless = infinite(left), infinite(right)
    if any(endless):
        return (endless[0] > endless[1]) - (endless[0] < endless[1])
    verdict = same(left, right, context)
    if verdict.equal:
        return 0
    if verdict.equal is None:
        raise Unsettled(verdict.reason)
    values = [_value(node, context) for node in (left, right)]
    if values[0] is None or values[1] is None:
        raise Unsettled("an endpoint has no known size")
    return 1 if values[0] > values[1] else -1


def _value(node: Node, context: Context) -> Fraction | None:
    if isinstance(node, Number):
        return node.value
    try:
        known = approximate(exact(node, context.budget))
    except (Unsettled, Undefined):
        known = None
    return known if known is not None or context.symbolic is None else context.symbolic.value(node)

"""Estimates the magnitude of a value: to sixty digits where possible, or a proof that it is immense."""

from decimal import Context, Decimal
from fractions import Fraction

from posttrain.grading.exact_arithmetic import evaluate_exactly, factorial_bits
from posttrain.grading.expression_tree import Call, Node, Number, Power, Product
from posttrain.grading.rational_functions import (
    PI,
    Budget,
    E,
    Polynomial,
    RationalFunction,
    Undecided,
    Undefined,
    as_rational,
)

DIGITS = 60
PI_DIGITS = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
DECIMAL_CONTEXT = Context(prec=DIGITS + 10, Emax=10**9, Emin=-(10**9))
# A number larger than 2 to this power is immense.
IMMENSE_BITS = 30_000
CANCELLATION = Decimal(10) ** -(DIGITS - 20)


def approximate(value: RationalFunction) -> Fraction | None:
    """A real value to about sixty digits, or exactly if it is rational. None if it is not a real constant."""
    known = as_rational(value)
    if known is not None:
        return known
    over, under = _to_decimal(value.numerator), _to_decimal(value.denominator)
    if over is None or not under:
        return None
    return Fraction(over) / Fraction(under)


def _to_decimal(polynomial: Polynomial) -> Decimal | None:
    total, largest = Decimal(0), Decimal(0)
    for monomial, coefficient in polynomial.items():
        if max(coefficient.numerator.bit_length(), coefficient.denominator.bit_length()) > 2000:
            return None
        term = DECIMAL_CONTEXT.divide(Decimal(coefficient.numerator), Decimal(coefficient.denominator))
        for name, exponent in monomial:
            unit = _symbol_value(name)
            if unit is None or abs(exponent) > 1000:
                return None
            power = DECIMAL_CONTEXT.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
            term = DECIMAL_CONTEXT.multiply(term, DECIMAL_CONTEXT.power(unit, power))
        total, largest = DECIMAL_CONTEXT.add(total, term), max(largest, abs(term))
    return None if abs(total) < largest * CANCELLATION else total


def _symbol_value(name: str) -> Decimal | None:
    if name[0] == "#":
        return Decimal(int(name[1:]))
    if name == PI:
        return PI_DIGITS
    return DECIMAL_CONTEXT.exp(Decimal(1)) if name == E else None


def immense_sign(node: Node, budget: Budget) -> int:
    """1 or -1 if the value is provably larger than 2^30000 or smaller than -2^30000, else 0."""
    match node:
        case Power(base, exponent):
            return _power(base, exponent, budget)
        case Call("factorial", (argument,)):
            number = _number(argument, budget)
            whole = number is not None and number.denominator == 1 and number > 0
            large = whole and factorial_bits(int(number or 0)) > IMMENSE_BITS + 1
            return int(large or immense_sign(argument, budget) > 0)
        case Call("binomial", (top, bottom)):
            return _binomial(_number(top, budget), _number(bottom, budget))
        case Product(factors):
            return _product(factors, budget)
        case _:
            return 0


def _power(base: Node, exponent: Node, budget: Budget) -> int:
    number = _number(base, budget)
    if number is None:
        return int(immense_sign(base, budget) > 0 and (_number(exponent, budget) or 0) >= 1)
    if number < 2:
        return 0
    times = _number(exponent, budget)
    if times is None:
        return int(immense_sign(exponent, budget) > 0)
    return int(times * (int(number).bit_length() - 1) > IMMENSE_BITS)


def _binomial(top: Fraction | None, bottom: Fraction | None) -> int:
    """The sign of an immense binomial coefficient, since C(n, k) is at least (n/k)^k."""
    if top is None or bottom is None or top.denominator != 1 or bottom.denominator != 1:
        return 0
    smaller = min(bottom, top - bottom)
    return int(smaller > 0 and smaller * (int(top / smaller).bit_length() - 1) > IMMENSE_BITS)


def _product(factors: tuple[Node, ...], budget: Budget) -> int:
    sign, large = 1, False
    for factor in factors:
        size = immense_sign(factor, budget)
        number = None if size else _number(factor, budget)
        if size == 0 and (number is None or abs(number) < 1):
            return 0
        sign *= size or (1 if number and number > 0 else -1)
        large = large or bool(size)
    return sign if large else 0


def _number(node: Node, budget: Budget) -> Fraction | None:
    if isinstance(node, Number):
        return node.value
    try:
        return as_rational(evaluate_exactly(node, budget))
    except (Undecided, Undefined):
        return None

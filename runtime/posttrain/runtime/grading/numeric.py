"""Values of expressions to many digits, by mpmath. For workers: it may take any time at all."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from posttrain.runtime.grading.context import Outcome
from posttrain.runtime.grading.exact import based_value, exact
from posttrain.runtime.grading.ring import Budget, Undefined, Unsettled, as_rational
from posttrain.runtime.grading.tree import (
    DEGREE,
    Based,
    Call,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Quantity,
    Quotient,
    Sum,
    Symbol,
    holds_call,
    symbols,
)

DIGITS = 60
MORE_DIGITS = 250
MOST_DIGITS = 1000
POINTS = 12
POINTS_AT_LEAST = 4
DISCRETE = frozenset(("factorial", "factorial2", "binomial"))
EXPONENT_AT_MOST = 10**15
SMALL = Fraction(1, 10**40)

Point = dict[str, Fraction]
Amount = Any  # an mpf or an mpc: mpmath has no types


class NoValue(Exception):
    """The expression has no value at this point."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numerical half of a worker: proves inequality at a point, finds agreement at many."""

    def same(self, left: Node, right: Node) -> Outcome:
        names = sorted(symbols(left) | symbols(right))
        if not names:
            return _constants(left, right)
        agreed = 0
        for points, real_only in _points(names, any(holds_call(node, DISCRETE) for node in (left, right))):
            for point in points:
                verdict = _at(left, right, point, real_only)
                if verdict is False:
                    return Outcome(False, f"they differ at {_shown(point)}", "symbolic")
                agreed += verdict is True
            if agreed >= POINTS_AT_LEAST:
                return Outcome(True, f"they agree to {DIGITS} digits at {agreed} points", "symbolic")
        return Outcome(None, "no point was found where both sides have a value", "symbolic")

    def value(self, node: Node) -> Fraction | None:
        if symbols(node):
            return None
        try:
            amount = evaluated(node, {}, DIGITS)
        except (NoValue, Unsettled):
            return None
        return _fraction(amount) if _is_real(amount) else None


def _shown(point: Point) -> str:
    return ", ".join(f"{name} = {value}" for name, value in point.items())


def _points(names: list[str], discrete: bool) -> Iterator[tuple[list[Point], bool]]:
    """Real points first; whole ones where those say nothing; then points where complex values count. Only
    whole ones for factorials: what they are between does not matter."""
    draw = random.Random(" ".join(names))
    whole = [{name: Fraction(draw.randint(1, 12)) for name in names} for _ in range(2 * POINTS)]
    if discrete:
        yield whole, True
        yield whole, False
        return
    reals = [
        {name: Fraction(draw.randint(-300, 500), draw.randint(60, 127)) for name in names}
        for _ in range(2 * POINTS)
    ]
    yield reals[:POINTS], True
    yield reals[POINTS:], True
    yield whole, True
    yield reals[:POINTS], False


def _at(left: Node, right: Node, point: Point, real_only: bool) -> bool | None:
    try:
        one, two = evaluated(left, point, DIGITS), evaluated(right, point, DIGITS)
        if real_only and not (_is_real(one) and _is_real(two)):
            return None
        if not _apart(one, two):
            return True
        one, two = evaluated(left, point, MORE_DIGITS), evaluated(right, point, MORE_DIGITS)
        return not _apart(one, two, MORE_DIGITS)
    except (NoValue, Unsettled):
        return None


def _constants(left: Node, right: Node) -> Outcome:
    try:
        for digits in (DIGITS, MORE_DIGITS, MOST_DIGITS):
            one, two = evaluated(left, {}, digits), evaluated(right, {}, digits)
            if _apart(one, two, digits):
                return Outcome(False, f"they differ within {digits} digits", "symbolic")
        if max(abs(one), abs(two)) > _mp().mpf(10) ** (MOST_DIGITS // 3):
            return Outcome(None, "numbers too large to tell apart", "symbolic")
        return Outcome(True, f"they agree to {MOST_DIGITS} digits", "symbolic")
    except (NoValue, Unsettled) as reason:
        return Outcome(None, str(reason) or "no value", "symbolic")


def _apart(one: Amount, two: Amount, digits: int = DIGITS) -> bool:
    """Apart by more than the working precision can blur, a third of the digits being left for that."""
    scale = max(abs(one), abs(two))
    return abs(one - two) > max(scale, 0) * _mp().mpf(10) ** -(digits * 2 // 3) if scale else False


def _is_real(amount: Amount) -> bool:
    imaginary = getattr(amount, "imag", 0)
    return abs(imaginary) <= abs(amount) * _mp().mpf(10) ** -(DIGITS // 2)


def _fraction(amount: Amount) -> Fraction | None:
    real = _mp().mpf(amount.real)
    if not _mp().isfinite(real):
        return None
    sign, mantissa, exponent, _ = real._mpf_
    if abs(exponent) > 10_000:
        return None
    return Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent


def _mp() -> Any:
    import mpmath

    return mpmath.mp


def evaluated(node: Node, point: Point, digits: int) -> Amount:
    """Raises NoValue where there is none, Unsettled where a number is too large."""
    mp = _mp()
    with mp.workdps(digits + 15):
        try:
            amount = _value(node, point)
        except (ZeroDivisionError, ValueError, OverflowError, TypeError) as error:
            raise NoValue(str(error)) from error
        if not mp.isfinite(amount):
            raise NoValue("an infinite value")
        return +amount


def _value(node: Node, point: Point) -> Amount:
    mp = _mp()
    match node:
        case Number(value):
            return mp.mpf(value.numerator) / value.denominator
        case Symbol(name):
            return mp.mpf(point[name].numerator) / point[name].denominator
        case Constant(name):
            return {"pi": mp.pi, "e": mp.e, "i": mp.mpc(0, 1), "infinity": mp.inf}[name] + 0
        case Based(digits, base):
            return _value(Number(based_value(digits, base)), point)
        case _:
            return _compound(node, point)


def _compound(node: Node, point: Point) -> Amount:
    mp = _mp()
    match node:
        case Quantity(value, "deg"):
            return _value(Product((value, DEGREE)), point)
        case Sum(terms):
            return mp.fsum(_value(term, point) for term in terms)
        case Product(factors):
            return mp.fprod(_value(factor, point) for factor in factors)
        case Quotient(over, under):
            return _value(over, point) / _value(under, point)
        case Power(base, exponent):
            return _power(_value(base, point), _value(exponent, point), exponent)
        case Call("root", (base, degree)):
            return _power(
                _value(base, point), 1 / _value(degree, point), Quotient(Number(Fraction(1)), degree)
            )
        case Call(name, arguments):
            return _called(name, [_value(argument, point) for argument in arguments])
        case _:
            raise Unsettled(f"{type(node).__name__.lower()} has no numerical value")


def _power(base: Amount, exponent: Amount, node: Node) -> Amount:
    mp = _mp()
    if abs(exponent) > EXPONENT_AT_MOST:
        raise Unsettled("an exponent beyond the limit")
    if _is_real(base) and base.real < 0:
        known = _rational(node)
        if known is not None and known.denominator % 2:
            return (-1) ** (known.numerator % 2) * mp.power(-base.real, exponent)
    return mp.power(base, exponent)


def _rational(node: Node) -> Fraction | None:
    try:
        return as_rational(exact(node, Budget(1000, 1000)))
    except (Unsettled, Undefined):
        return None


def _called(name: str, values: list[Amount]) -> Amount:
    mp = _mp()
    match name, values:
        case "ln", [x]:
            return mp.ln(x)
        case "ln", [x, base]:
            return mp.ln(x) / mp.ln(base)
        case "log10", [x]:
            return mp.ln(x) / mp.ln(10)
        case "abs", [x]:
            return abs(x)
        case "cis", [x]:
            return mp.expj(x)
        case (("max" | "min"), _):
            return max(values) if name == "max" else min(values)
        case (("factorial" | "factorial2" | "gamma"), [x]):
            return {"factorial": mp.factorial, "factorial2": mp.fac2, "gamma": mp.gamma}[name](x)
        case "binomial", [n, k]:
            return mp.binomial(n, k)
        case _:
            return _named(name, values)


PLAIN_NAMES = """
sin cos tan cot sec csc asin acos atan acot asec acsc sinh cosh tanh coth sech csch asinh acosh atanh
exp floor ceil sign re im arg
"""
PLAIN = frozenset(PLAIN_NAMES.split())


def _named(name: str, values: list[Amount]) -> Amount:
    if name not in PLAIN or len(values) != 1:
        raise Unsettled(f"the function {name.strip(':')} has no known value")
    return getattr(_mp(), name)(values[0])

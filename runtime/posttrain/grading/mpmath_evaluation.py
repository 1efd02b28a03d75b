"""Evaluates an expression at a point to any number of digits, with mpmath."""

import random
import re
from fractions import Fraction
from typing import Any

from posttrain.grading.exact_arithmetic import based_value, evaluate_exactly
from posttrain.grading.expression_tree import (
    BOUND_PREFIX,
    DEGREE,
    BasedNumber,
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
)
from posttrain.grading.numeric_calculus import evaluate_binder
from posttrain.grading.rational_functions import Budget, Undecided, Undefined, as_rational
from posttrain.grading.step_meter import METER

MAX_EXPONENT = 10**15
MAX_ARGUMENT_BITS = 20_000
FAR_FROM_ZERO = 10**6
REAL_DIGITS = 30
NODE_STEPS, FUNCTION_STEPS, EXTRAPOLATION_STEPS = 1, 10, 20
INDEX_SUM = re.compile(r"[+-]?\d+(?:[+-]\d+)*")

MpNumber = Any  # an mpf or an mpc: mpmath has no type annotations
Point = dict[str, Any]  # Fractions, and MpNumbers for the variables that a sum or an integral binds


class NoValue(Exception):
    """The expression has no value at this point."""


def mpmath_context() -> Any:
    import mpmath

    return mpmath.mp


def is_real(amount: MpNumber) -> bool:
    imaginary = getattr(amount, "imag", 0)
    return abs(imaginary) <= abs(amount) * mpmath_context().mpf(10) ** -REAL_DIGITS


def evaluate_numerically(node: Node, point: Point, digits: int) -> MpNumber:
    """The value of a node. Raises NoValue, Undecided if a number is too large, StepLimit."""
    mp = mpmath_context()
    with mp.workdps(digits + 15):
        try:
            amount = _value(node, point)
        except (ZeroDivisionError, ValueError, OverflowError, TypeError) as error:
            raise NoValue(str(error)) from error
        if not mp.isfinite(amount):
            raise NoValue("an infinite value")
        return +amount


def _value(node: Node, point: Point) -> MpNumber:
    mp = mpmath_context()
    METER.spend(NODE_STEPS, mp.dps)
    match node:
        case Number(value):
            return mp.mpf(value.numerator) / value.denominator
        case Symbol(name):
            return _variable(name, point)
        case Constant(name):
            return {"pi": mp.pi, "e": mp.e, "i": mp.mpc(0, 1), "infinity": mp.inf}[name] + 0
        case BasedNumber(digits, base):
            return _value(Number(based_value(digits, base)), point)
        case _:
            return _compound(node, point)


def _evaluate_body(body: Node, point: Point, variable: str, x: MpNumber) -> MpNumber:
    """A term or an integrand. Far from zero, where a power exceeds the limit, it is taken to be 0."""
    METER.spend(EXTRAPOLATION_STEPS, mpmath_context().dps)
    try:
        return _value(body, {**point, variable: x})
    except Undecided:
        if abs(x) < FAR_FROM_ZERO:
            raise
        return mpmath_context().mpf(0)


def _variable(name: str, point: Point) -> MpNumber:
    mp = mpmath_context()
    if name not in point and BOUND_PREFIX in name:
        return _indexed_term(name, point)
    value = point[name]
    return mp.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mp.mpmathify(value)


def _indexed_term(name: str, point: Point) -> MpNumber:
    """The value of a_{n-k} for integers n and k: a pseudo-random number that depends on the index."""
    stem, _, index = name.partition("_")
    for variable in sorted(point, key=len, reverse=True):
        if point[variable] == int(point[variable]):
            index = index.replace(variable, str(int(point[variable])))
    index = index.replace("--", "+").replace("+-", "-")
    if not INDEX_SUM.fullmatch(index):
        raise Undecided("an index that is not an integer")
    number = sum(int(part) for part in re.findall(r"[+-]?\d+", index))
    return mpmath_context().mpf(random.Random(f"{stem} {number}").randint(100, 999)) / 100


def _compound(node: Node, point: Point) -> MpNumber:
    mp = mpmath_context()
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
        case Call("sum" | "product" | "integral" | "limit" as name, (Symbol(variable), first, second, body)):
            return evaluate_binder(
                mp,
                name,
                (_value(first, point), _value(second, point)),
                lambda x: _evaluate_body(body, point, variable, x),
            )
        case Call(name, arguments):
            return _apply_function(name, [_value(argument, point) for argument in arguments])
        case _:
            raise Undecided(f"{type(node).__name__.lower()} has no numerical value")


def _power(base: MpNumber, exponent: MpNumber, node: Node) -> MpNumber:
    mp = mpmath_context()
    METER.spend(FUNCTION_STEPS, mp.dps)
    _check_argument(exponent)
    if abs(exponent) > MAX_EXPONENT:
        raise Undecided("exponent too large")
    if is_real(base) and base.real < 0:
        known = _rational(node)
        if known is not None and known.denominator % 2:
            return (-1) ** (known.numerator % 2) * mp.power(-base.real, exponent)
    return mp.power(base, exponent)


def _rational(node: Node) -> Fraction | None:
    try:
        return as_rational(evaluate_exactly(node, Budget(1000, 1000)))
    except (Undecided, Undefined):
        return None


def _check_argument(value: MpNumber) -> None:
    """A function of a huge number needs as many digits of pi or ln 2 as the number has."""
    mp = mpmath_context()
    if mp.isfinite(value) and value and mp.mag(value) > MAX_ARGUMENT_BITS:
        raise Undecided(f"a function of a number larger than 2^{MAX_ARGUMENT_BITS}")


def _apply_function(name: str, values: list[MpNumber]) -> MpNumber:
    mp = mpmath_context()
    METER.spend(FUNCTION_STEPS, mp.dps)
    for value in () if name in EXACT_FUNCTIONS else values:
        _check_argument(value)
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
            return _apply_mpmath_function(name, values)


# Functions whose cost does not grow with the size of their argument.
EXACT_FUNCTIONS = frozenset(("abs", "max", "min", "ln", "log10", "floor", "ceil", "sign", "re", "im", "arg"))
MPMATH_FUNCTION_NAMES = """
sin cos tan cot sec csc asin acos atan acot asec acsc sinh cosh tanh coth sech csch asinh acosh atanh
exp floor ceil sign re im arg
"""
MPMATH_FUNCTIONS = frozenset(MPMATH_FUNCTION_NAMES.split())


def _apply_mpmath_function(name: str, values: list[MpNumber]) -> MpNumber:
    if name not in MPMATH_FUNCTIONS or len(values) != 1:
        raise Undecided(f"unknown function {name.strip(':')}")
    return getattr(mpmath_context(), name)(values[0])

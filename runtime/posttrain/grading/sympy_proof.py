"""Proves equality with sympy. Its objects are built from the expression tree; sympy never parses text."""

from fractions import Fraction
from typing import Any

from posttrain.grading.context import Outcome
from posttrain.grading.exact_arithmetic import based_value
from posttrain.grading.expression_tree import (
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
from posttrain.grading.numeric_equality import NumericChecker
from posttrain.grading.rational_functions import Undecided

SYMPY_NAMES = {
    "abs": "Abs", "ceil": "ceiling", "re": "re", "im": "im", "max": "Max", "min": "Min", "gcd": "gcd",
    "lcm": "lcm", "sign": "sign", "floor": "floor", "factorial": "factorial", "factorial2": "factorial2",
    "gamma": "gamma", "binomial": "binomial", "arg": "arg", "exp": "exp",
} | {
    prefix + name + suffix: prefix + name + suffix
    for name in ("sin", "cos", "tan", "cot", "sec", "csc")
    for prefix in ("", "a")
    for suffix in ("", "h")
}  # fmt: skip


class SympyChecker(NumericChecker):
    """Compares at sampled points first, then tries to simplify the difference to zero."""

    def compare(self, left: Node, right: Node) -> Outcome:
        numeric = super().compare(left, right)
        if not numeric.equal:
            return numeric
        return (
            Outcome(True, "the difference simplifies to zero", "symbolic")
            if is_provably_equal(left, right)
            else numeric
        )


def is_provably_equal(left: Node, right: Node) -> bool:
    import sympy

    try:
        difference = to_sympy(left) - to_sympy(right)
    except Undecided:
        return False
    return bool(sympy.simplify(difference) == 0)


def to_sympy(node: Node) -> Any:
    """The sympy object for a scalar."""
    import sympy

    match node:
        case Number(value):
            return _to_sympy_rational(value)
        case Symbol(name):
            return sympy.Symbol(name, real=True)
        case Constant(name):
            return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infinity": sympy.oo}[name]
        case BasedNumber(digits, base):
            return _to_sympy_rational(based_value(digits, base))
        case _:
            return _compound_to_sympy(node)


def _compound_to_sympy(node: Node) -> Any:
    import sympy

    match node:
        case Quantity(value, "deg"):
            return to_sympy(Product((value, DEGREE)))
        case Sum(terms):
            return sympy.Add(*map(to_sympy, terms))
        case Product(factors):
            return sympy.Mul(*map(to_sympy, factors))
        case Quotient(over, under):
            return sympy.Mul(to_sympy(over), sympy.Pow(to_sympy(under), -1))
        case Power(base, exponent):
            return sympy.Pow(to_sympy(base), to_sympy(exponent))
        case Call(name, arguments):
            return _call_to_sympy(name, [to_sympy(argument) for argument in arguments])
        case _:
            raise Undecided(f"{type(node).__name__.lower()} is not a scalar")


def _to_sympy_rational(value: Fraction) -> Any:
    import sympy

    return sympy.Rational(value.numerator, value.denominator)


def _call_to_sympy(name: str, values: list[Any]) -> Any:
    import sympy

    if name == "ln":
        return sympy.log(*values)
    if name == "log10":
        return sympy.log(values[0], 10)
    if name == "root":
        return sympy.real_root(*values)
    if name == "cis":
        return sympy.exp(sympy.I * values[0])
    if name not in SYMPY_NAMES:
        raise Undecided(f"unknown function {name.strip(':')}")
    return getattr(sympy, SYMPY_NAMES[name])(*values)

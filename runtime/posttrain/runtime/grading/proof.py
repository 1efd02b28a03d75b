"""Equality proved by sympy. The objects are built one by one from the tree; no text is ever parsed here."""

from fractions import Fraction
from typing import Any

from posttrain.runtime.grading.context import Outcome
from posttrain.runtime.grading.exact import based_value
from posttrain.runtime.grading.numeric import Numbers
from posttrain.runtime.grading.ring import Unsettled
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
)

NAMED = {
    "abs": "Abs", "ceil": "ceiling", "re": "re", "im": "im", "max": "Max", "min": "Min", "gcd": "gcd",
    "lcm": "lcm", "sign": "sign", "floor": "floor", "factorial": "factorial", "factorial2": "factorial2",
    "gamma": "gamma", "binomial": "binomial", "arg": "arg", "exp": "exp",
} | {
    prefix + name + suffix: prefix + name + suffix
    for name in ("sin", "cos", "tan", "cot", "sec", "csc")
    for prefix in ("", "a")
    for suffix in ("", "h")
}  # fmt: skip


class Proofs(Numbers):
    """Points first, as in a worker without proofs; then simplification of the difference to zero."""

    def same(self, left: Node, right: Node) -> Outcome:
        agreed = super().same(left, right)
        if not agreed.equal:
            return agreed
        return (
            Outcome(True, "their difference simplifies to zero", "symbolic")
            if proved(left, right)
            else agreed
        )


def proved(left: Node, right: Node) -> bool:
    import sympy

    try:
        difference = built(left) - built(right)
    except Unsettled:
        return False
    return bool(sympy.simplify(difference) == 0)


def built(node: Node) -> Any:
    """The sympy object for a scalar."""
    import sympy

    match node:
        case Number(value):
            return _rational(value)
        case Symbol(name):
            return sympy.Symbol(name, real=True)
        case Constant(name):
            return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infinity": sympy.oo}[name]
        case Based(digits, base):
            return _rational(based_value(digits, base))
        case _:
            return _compound(node)


def _compound(node: Node) -> Any:
    import sympy

    match node:
        case Quantity(value, "deg"):
            return built(Product((value, DEGREE)))
        case Sum(terms):
            return sympy.Add(*map(built, terms))
        case Product(factors):
            return sympy.Mul(*map(built, factors))
        case Quotient(over, under):
            return sympy.Mul(built(over), sympy.Pow(built(under), -1))
        case Power(base, exponent):
            return sympy.Pow(built(base), built(exponent))
        case Call(name, arguments):
            return _called(name, [built(argument) for argument in arguments])
        case _:
            raise Unsettled(f"{type(node).__name__.lower()} is no scalar")


def _rational(value: Fraction) -> Any:
    import sympy

    return sympy.Rational(value.numerator, value.denominator)


def _called(name: str, values: list[Any]) -> Any:
    import sympy

    if name == "ln":
        return sympy.log(*values)
    if name == "log10":
        return sympy.log(values[0], 10)
    if name == "root":
        return sympy.real_root(*values)
    if name == "cis":
        return sympy.exp(sympy.I * values[0])
    if name not in NAMED:
        raise Unsettled(f"the function {name.strip(':')} is not known")
    return getattr(sympy, NAMED[name])(*values)

"""Checks whether an answer is simplified: lowest terms, and no unevaluated arithmetic."""

from fractions import Fraction
from math import gcd

from posttrain.grading.expression_tree import Call, Node, Number, Power, Product, Quotient, Sum, children

EVALUATED_CALLS = frozenset(
    ("factorial", "binomial", "floor", "ceil", "gcd", "lcm", "max", "min", "factorial2")
)


def unsimplified_reason(node: Node) -> str | None:
    """The part that is not simplified, or None."""
    reason = _node_reason(node)
    if reason:
        return reason
    inner = children(node)
    if _is_mixed_number(node):
        return None
    return next((reason for child in inner if (reason := unsimplified_reason(child))), None)


def _node_reason(node: Node) -> str | None:
    match node:
        case Quotient(Number(over), Number(under)):
            return _fraction_reason(over, under)
        case Quotient(Product((Number(), Number(over))), Number(under)):
            return _fraction_reason(over, under)
        case Sum(terms) if sum(_is_numeric(term) for term in terms) > 1 and not _is_mixed_number(node):
            return "an unevaluated sum"
        case Product(factors) if sum(isinstance(f, Number) and abs(f.value) != 1 for f in factors) > 1:
            return "an unevaluated product"
        case Power(Number(base), Number(exponent)) if base != 10:
            return _power_reason(base, exponent)
        case Call(name, arguments) if name in EVALUATED_CALLS and all(
            isinstance(a, Number) for a in arguments
        ):
            return f"an unevaluated {name}"
        case _:
            return None


def _is_numeric(node: Node) -> bool:
    return isinstance(node, Number) or (isinstance(node, Quotient) and all(map(_is_numeric, children(node))))


def _is_mixed_number(node: Node) -> bool:
    match node:
        case Sum((Number(whole), Number(part, None))):
            return whole.denominator == 1 and 0 < part < 1
        case _:
            return False


def _fraction_reason(over: Fraction, under: Fraction) -> str | None:
    if over.denominator != 1 or under.denominator != 1:
        return "a fraction of decimals"
    if abs(under) == 1 or gcd(int(over), int(under)) > 1:
        return "a fraction that is not in lowest terms"
    return None


def _power_reason(base: Fraction, exponent: Fraction) -> str | None:
    if exponent.denominator == 1:
        return "an unevaluated power"
    if base.denominator != 1 or base < 2 or base > 10**9:
        return None
    degree, factor = exponent.denominator, 2
    while factor**degree <= base:
        if base % factor**degree == 0:
            return "a perfect power under a root"
        factor += 1
    return None

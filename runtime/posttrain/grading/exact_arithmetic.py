"""Evaluates an expression tree exactly, without floating point and within a work budget."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

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
from posttrain.grading.finite_series import evaluate_series
from posttrain.grading.powers import opaque_value, power
from posttrain.grading.rational_functions import (
    IMAGINARY,
    ONE,
    PI,
    Budget,
    E,
    RationalFunction,
    Undecided,
    Undefined,
    add,
    as_rational,
    divide,
    factorize,
    multiply,
    rational,
    unknown,
    unknown_names,
)

COMBINATORIAL = frozenset(("factorial", "factorial2", "binomial"))
ZERO_AT_ZERO = frozenset(("sin", "tan", "asin", "atan", "sinh", "tanh"))
AT_ZERO = ZERO_AT_ZERO | {"cos", "cosh"}
VARIADIC: dict[str, Callable[..., Fraction]] = {"max": max, "min": min}
INTEGER_FUNCTIONS: dict[str, Callable[..., int]] = {"gcd": math.gcd, "lcm": math.lcm}
UNARY: dict[str, Callable[[Fraction], Fraction | int]] = {
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "sign": lambda x: (x > 0) - (x < 0),
    "re": lambda x: x,
    "im": lambda x: 0,
}


def evaluate_exactly(node: Node, budget: Budget) -> RationalFunction:
    """The exact value of a node. Raises Undecided if it has none, and Undefined on a division by zero."""
    budget.spend(1)
    match node:
        case Number(value):
            return rational(value)
        case Symbol(name):
            return unknown(name.replace("#", "").replace("%", "") or "?")
        case Constant(name):
            return _constant(name)
        case BasedNumber(digits, base):
            return rational(based_value(digits, base))
        case _:
            return _compound(node, budget)


def _compound(node: Node, budget: Budget) -> RationalFunction:
    match node:
        case Sum(terms):
            return reduce(
                lambda one, two: add(one, two, budget), (evaluate_exactly(term, budget) for term in terms)
            )
        case Product(factors):
            values = (evaluate_exactly(factor, budget) for factor in factors)
            return reduce(lambda one, two: multiply(one, two, budget), values)
        case Quotient(over, under):
            return divide(evaluate_exactly(over, budget), evaluate_exactly(under, budget), budget)
        case Power(base, exponent):
            return power(evaluate_exactly(base, budget), evaluate_exactly(exponent, budget), budget)
        case Quantity(value, "deg"):
            return evaluate_exactly(Product((value, DEGREE)), budget)
        case Call("sum" | "product" as name, arguments):
            series = evaluate_series(name, arguments, evaluate_exactly, budget)
            return series or opaque_value(
                name, [evaluate_exactly(argument, budget) for argument in arguments]
            )
        case Call(name, arguments):
            return _call(name, [evaluate_exactly(argument, budget) for argument in arguments], budget)
        case _:
            raise Undecided(f"{type(node).__name__.lower()} is not a number")


def _constant(name: str) -> RationalFunction:
    if name == "infinity":
        raise Undecided("infinity is not a number")
    return unknown({"pi": PI, "e": E, "i": IMAGINARY}[name])


def based_value(digits: str, base: int) -> Fraction:
    whole, _, part = digits.partition(".")
    value = Fraction(int(whole or "0", base))
    return value + (Fraction(int(part, base), base ** len(part)) if part else 0)


def is_decisive(value: RationalFunction) -> bool:
    """Whether a value that is not identical is provably different.

    This is not known for values with both pi and e, which are not proved to be algebraically independent.
    """
    names = unknown_names(value)
    has_e = any(name == E or name.startswith(E + "^") for name in names)
    return value.independent and not (has_e and any(name.startswith(PI) for name in names))


def _call(name: str, values: list[RationalFunction], budget: Budget) -> RationalFunction:
    numbers = [as_rational(value) for value in values]
    if name == "root" and len(values) == 2 and numbers[1]:
        return power(values[0], rational(1 / numbers[1]), budget)
    if name in ("ln", "log10"):
        return _logarithm(name, values, budget)
    if name == "exp" and len(values) == 1:
        return power(unknown(E), values[0], budget)
    known = [number for number in numbers if number is not None]
    rational_value = _rational_call(name, known, budget) if len(known) == len(values) else None
    if rational_value is not None:
        return rational(rational_value)
    value = opaque_value(name, values)
    return RationalFunction(
        value.numerator, ONE, name.startswith(":") and all(argument.independent for argument in values)
    )


def _rational_call(name: str, numbers: list[Fraction], budget: Budget) -> Fraction | int | None:
    """The value of a function of rational numbers, if it is rational."""
    if name in COMBINATORIAL:
        return _combinatorial(name, numbers, budget)
    if name in VARIADIC and numbers:
        return VARIADIC[name](numbers)
    if name in INTEGER_FUNCTIONS and numbers and all(x.denominator == 1 for x in numbers):
        return INTEGER_FUNCTIONS[name](*(int(x) for x in numbers))
    if len(numbers) != 1:
        return None
    if name in UNARY:
        return UNARY[name](numbers[0])
    return {True: 0, False: 1}[name in ZERO_AT_ZERO] if not numbers[0] and name in AT_ZERO else None


def _combinatorial(name: str, numbers: list[Fraction], budget: Budget) -> int | None:
    if not all(x.denominator == 1 and x >= 0 for x in numbers):
        return None
    first, *rest = (int(x) for x in numbers)
    if name == "binomial" and len(rest) == 1:
        bottom = min(rest[0], first - rest[0])
        budget.admit_bits(max(0, bottom) * first.bit_length())
        return math.comb(first, rest[0])
    budget.admit_bits(factorial_bits(first))
    if name == "factorial2":
        return math.prod(range(first, 0, -2))
    return math.factorial(first) if name == "factorial" else None


def factorial_bits(number: int) -> float:
    """log2 of n!, or infinity for a very large n."""
    return math.inf if number > 10**9 else math.lgamma(number + 1) / math.log(2)


def _logarithm(name: str, values: list[RationalFunction], budget: Budget) -> RationalFunction:
    base = values[1] if len(values) == 2 else rational(10) if name == "log10" else unknown(E)
    return divide(_natural_logarithm(values[0], budget), _natural_logarithm(base, budget), budget)


def _natural_logarithm(value: RationalFunction, budget: Budget) -> RationalFunction:
    """ln of a positive rational as a sum over primes, ln of e^q as q, and any other value as an unknown."""
    if len(value.numerator) == 1 and value.denominator is ONE:
        ((monomial, coefficient),) = value.numerator.items()
        if coefficient > 0 and all(name == E or name[0] == "#" for name, _ in monomial):
            total = _logarithm_of_rational(coefficient, budget)
            for name, exponent in monomial:
                part = rational(1) if name == E else unknown(f"@ln {name[1:]}", free=False)
                if total is not None:
                    total = add(total, multiply(part, rational(Fraction(exponent)), budget), budget)
            if total is not None:
                return total
    if not value.numerator:
        raise Undefined("the logarithm of zero")
    return opaque_value("ln", [value])


def _logarithm_of_rational(number: Fraction, budget: Budget) -> RationalFunction | None:
    over, under = factorize(number.numerator, budget), factorize(number.denominator, budget)
    if over is None or under is None:
        return None
    total = rational(0)
    for factors, sign in ((over, 1), (under, -1)):
        for prime, count in factors.items():
            part = multiply(unknown(f"@ln {prime}", free=False), rational(sign * count), budget)
            total = add(total, part, budget)
    return total

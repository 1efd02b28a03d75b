"""The tree to exact values, without floating point and within a budget of work."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

from posttrain.runtime.grading.powers import opaque, power
from posttrain.runtime.grading.ring import (
    IMAGINARY,
    ONE,
    PI,
    Budget,
    E,
    Undefined,
    Unsettled,
    Value,
    add,
    as_rational,
    divide,
    factored,
    multiply,
    names,
    rational,
    unknown,
)
from posttrain.runtime.grading.series import total
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

COUNTED = frozenset(("factorial", "factorial2", "binomial"))
ZERO_AT_ZERO = frozenset(("sin", "tan", "asin", "atan", "sinh", "tanh"))
AT_ZERO = ZERO_AT_ZERO | {"cos", "cosh"}
SEVERAL: dict[str, Callable[..., Fraction]] = {"max": max, "min": min}
WHOLE: dict[str, Callable[..., int]] = {"gcd": math.gcd, "lcm": math.lcm}
SINGLE: dict[str, Callable[[Fraction], Fraction | int]] = {
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "sign": lambda x: (x > 0) - (x < 0),
    "re": lambda x: x,
    "im": lambda x: 0,
}


def exact(node: Node, budget: Budget) -> Value:
    """Raises Unsettled where exact arithmetic ends, Undefined on a division by zero."""
    budget.spend(1)
    match node:
        case Number(value):
            return rational(value)
        case Symbol(name):
            return unknown(name.replace("#", "").replace("%", "") or "?")
        case Constant(name):
            return _constant(name)
        case Based(digits, base):
            return rational(based_value(digits, base))
        case _:
            return _compound(node, budget)


def _compound(node: Node, budget: Budget) -> Value:
    match node:
        case Sum(terms):
            return reduce(lambda one, two: add(one, two, budget), (exact(term, budget) for term in terms))
        case Product(factors):
            values = (exact(factor, budget) for factor in factors)
            return reduce(lambda one, two: multiply(one, two, budget), values)
        case Quotient(over, under):
            return divide(exact(over, budget), exact(under, budget), budget)
        case Power(base, exponent):
            return power(exact(base, budget), exact(exponent, budget), budget)
        case Quantity(value, "deg"):
            return exact(Product((value, DEGREE)), budget)
        case Call("sum" | "product" as name, arguments):
            made = total(name, arguments, exact, budget)
            return made or opaque(name, [exact(argument, budget) for argument in arguments])
        case Call(name, arguments):
            return _call(name, [exact(argument, budget) for argument in arguments], budget)
        case _:
            raise Unsettled(f"{type(node).__name__.lower()} is not a number")


def _constant(name: str) -> Value:
    if name == "infinity":
        raise Unsettled("infinity is not a number")
    return unknown({"pi": PI, "e": E, "i": IMAGINARY}[name])


def based_value(digits: str, base: int) -> Fraction:
    whole, _, part = digits.partition(".")
    value = Fraction(int(whole or "0", base))
    return value + (Fraction(int(part, base), base ** len(part)) if part else 0)


def settles(value: Value) -> bool:
    """Whether a different value is proved to be different. Pi and e are not known to be independent."""
    found = names(value)
    has_e = any(name == E or name.startswith(E + "^") for name in found)
    return value.free and not (has_e and any(name.startswith(PI) for name in found))


def _call(name: str, values: list[Value], budget: Budget) -> Value:
    numbers = [as_rational(value) for value in values]
    if name == "root" and len(values) == 2 and numbers[1]:
        return power(values[0], rational(1 / numbers[1]), budget)
    if name in ("ln", "log10"):
        return _logarithm(name, values, budget)
    if name == "exp" and len(values) == 1:
        return power(unknown(E), values[0], budget)
    known = [number for number in numbers if number is not None]
    made = _of_numbers(name, known, budget) if len(known) == len(values) else None
    if made is not None:
        return rational(made)
    value = opaque(name, values)
    return Value(value.over, ONE, name.startswith(":") and all(argument.free for argument in values))


def _of_numbers(name: str, numbers: list[Fraction], budget: Budget) -> Fraction | int | None:
    """Functions of rational numbers whose value is rational."""
    if name in COUNTED:
        return _counted(name, numbers, budget)
    if name in SEVERAL and numbers:
        return SEVERAL[name](numbers)
    if name in WHOLE and numbers and all(x.denominator == 1 for x in numbers):
        return WHOLE[name](*(int(x) for x in numbers))
    if len(numbers) != 1:
        return None
    if name in SINGLE:
        return SINGLE[name](numbers[0])
    return {True: 0, False: 1}[name in ZERO_AT_ZERO] if not numbers[0] and name in AT_ZERO else None


def _counted(name: str, numbers: list[Fraction], budget: Budget) -> int | None:
    if not all(x.denominator == 1 and x >= 0 for x in numbers):
        return None
    first, *rest = (int(x) for x in numbers)
    if name == "binomial" and len(rest) == 1:
        bottom = min(rest[0], first - rest[0])
        budget.admit(max(0, bottom) * first.bit_length())
        return math.comb(first, rest[0])
    budget.admit(factorial_bits(first))
    if name == "factorial2":
        return math.prod(range(first, 0, -2))
    return math.factorial(first) if name == "factorial" else None


def factorial_bits(number: int) -> float:
    """About log2 of n!, never too little: n^n is larger."""
    return math.inf if number > 10**9 else math.lgamma(number + 1) / math.log(2)


def _logarithm(name: str, values: list[Value], budget: Budget) -> Value:
    base = values[1] if len(values) == 2 else rational(10) if name == "log10" else unknown(E)
    return divide(_natural(values[0], budget), _natural(base, budget), budget)


def _natural(value: Value, budget: Budget) -> Value:
    """ln of a positive rational as a sum over primes, ln of e^q as q, anything else by name."""
    if len(value.over) == 1 and value.under is ONE:
        ((monomial, coefficient),) = value.over.items()
        if coefficient > 0 and all(name == E or name[0] == "#" for name, _ in monomial):
            total = _of_positive(coefficient, budget)
            for name, exponent in monomial:
                part = rational(1) if name == E else unknown(f"@ln {name[1:]}", free=False)
                if total is not None:
                    total = add(total, multiply(part, rational(Fraction(exponent)), budget), budget)
            if total is not None:
                return total
    if not value.over:
        raise Undefined("the logarithm of zero")
    return opaque("ln", [value])


def _of_positive(number: Fraction, budget: Budget) -> Value | None:
    over, under = factored(number.numerator, budget), factored(number.denominator, budget)
    if over is None or under is None:
        return None
    total = rational(0)
    for factors, sign in ((over, 1), (under, -1)):
        for prime, count in factors.items():
            part = multiply(unknown(f"@ln {prime}", free=False), rational(sign * count), budget)
            total = add(total, part, budget)
    return total

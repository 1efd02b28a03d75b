"""Exact arithmetic on quotients of polynomials over the rationals.

The unknowns are variables, pi, e, i, roots of primes, powers such as 2^n, and anything else as a name that is
only equal to itself. A polynomial is a dict from monomials to coefficients. Where every unknown is
independent of the others (`free`), two values are equal only when they are the same here, so that
inequality is proved too.
"""

from dataclasses import dataclass
from fractions import Fraction

Exponent = int | Fraction
Monomial = tuple[tuple[str, Exponent], ...]
Polynomial = dict[Monomial, Fraction]

ROOT_LIMIT = 10_000  # trial division by primes up to here
IMAGINARY, PI, E = "%i", "%pi", "%e"


class Unsettled(Exception):
    """Exact arithmetic cannot say; the message gives the reason."""


class Undefined(Exception):
    """Division by zero."""


class Budget:
    """Bounds the work of one comparison, whatever the input: steps in all, bits in any one number."""

    def __init__(self, steps: int, bits: int):
        self.left = steps
        self.bits = bits

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Unsettled("too much exact arithmetic")

    def admit(self, bits: float) -> None:
        """Before a number of this many bits is worked out."""
        if bits > self.bits:
            raise Unsettled(f"a number of more than {self.bits} bits")
        self.spend(1 + int(bits) // 64)


@dataclass(frozen=True, slots=True)
class Value:
    over: Polynomial
    under: Polynomial
    free: bool


ONE: Polynomial = {(): Fraction(1)}


def rational(value: Fraction | int) -> Value:
    return Value({(): Fraction(value)} if value else {}, ONE, True)


def unknown(name: str, free: bool = True, exponent: Exponent = 1) -> Value:
    return Value({((name, exponent),): Fraction(1)}, ONE, free)


def as_rational(value: Value) -> Fraction | None:
    if value.under != ONE or len(value.over) > 1:
        return None
    return value.over.get((), None) if value.over else Fraction(0)


def monomials(left: Monomial, right: Monomial) -> tuple[Monomial, Fraction]:
    """The product of two monomials, roots and powers of i reduced."""
    if not left or not right:
        return left or right, Fraction(1)
    powers = dict(left)
    for name, exponent in right:
        powers[name] = powers.get(name, 0) + exponent
    return reduced(powers)


def reduced(powers: dict[str, Exponent]) -> tuple[Monomial, Fraction]:
    factor = Fraction(1)
    for name, exponent in list(powers.items()):
        if name == IMAGINARY:
            factor *= -1 if int(exponent) % 4 > 1 else 1
            powers[name] = int(exponent) % 2
        elif name[0] == "#":
            whole = exponent.numerator // exponent.denominator
            factor *= Fraction(int(name[1:])) ** whole
            powers[name] = exponent - whole
    return tuple(sorted((name, power) for name, power in powers.items() if power)), factor


def _size(polynomial: Polynomial) -> int:
    return sum(
        1 + (c.numerator.bit_length() + c.denominator.bit_length()) // 256 for c in polynomial.values()
    )


def added(left: Polynomial, right: Polynomial, budget: Budget) -> Polynomial:
    budget.spend(_size(left) + _size(right))
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, Fraction(0)) + coefficient
        if not total[monomial]:
            del total[monomial]
    return total


def multiplied(left: Polynomial, right: Polynomial, budget: Budget) -> Polynomial:
    if left is ONE or right is ONE:
        return right if left is ONE else left
    budget.spend(_size(left) * _size(right))
    total: Polynomial = {}
    for one, first in left.items():
        for two, second in right.items():
            monomial, factor = monomials(one, two)
            coefficient = total.get(monomial, Fraction(0)) + first * second * factor
            if coefficient:
                total[monomial] = coefficient
            else:
                total.pop(monomial, None)
    return total


def quotient(over: Polynomial, under: Polynomial, free: bool, budget: Budget) -> Value:
    """over/under, with a monomial below multiplied away."""
    if not under:
        raise Undefined("division by zero")
    if not over:
        return Value({}, ONE, free)
    if len(under) > 1:
        return Value(over, under, free)
    ((monomial, coefficient),) = under.items()
    inverse, factor = reduced({name: -exponent for name, exponent in monomial})
    return Value(multiplied(over, {inverse: factor / coefficient}, budget), ONE, free)


def add(left: Value, right: Value, budget: Budget) -> Value:
    free = left.free and right.free
    if left.under == right.under:
        return quotient(added(left.over, right.over, budget), left.under, free, budget)
    over = added(
        multiplied(left.over, right.under, budget), multiplied(right.over, left.under, budget), budget
    )
    return quotient(over, multiplied(left.under, right.under, budget), free, budget)


def multiply(left: Value, right: Value, budget: Budget) -> Value:
    over = multiplied(left.over, right.over, budget)
    under = multiplied(left.under, right.under, budget)
    return quotient(over, under, left.free and right.free, budget)


def divide(left: Value, right: Value, budget: Budget) -> Value:
    over = multiplied(left.over, right.under, budget)
    under = multiplied(left.under, right.over, budget)
    return quotient(over, under, left.free and right.free, budget)


def equal(left: Value, right: Value, budget: Budget) -> bool:
    if left.under == right.under:
        return left.over == right.over
    return multiplied(left.over, right.under, budget) == multiplied(right.over, left.under, budget)


def written(value: Value) -> str:
    """A canonical name for a value, by which it can stand as an unknown in another."""
    parts = (_written(value.over), _written(value.under))
    return parts[0] if value.under == ONE else "/".join(parts)


def _written(polynomial: Polynomial) -> str:
    terms = sorted(polynomial.items(), key=lambda term: str(term[0]))
    return "(" + "+".join(f"{c.numerator:x}/{c.denominator:x}{monomial}" for monomial, c in terms) + ")"


def names(value: Value) -> set[str]:
    return {name for side in (value.over, value.under) for monomial in side for name, _ in monomial}


def factored(number: int, budget: Budget) -> dict[int, int] | None:
    """The prime factors of a positive integer, None when it has large ones."""
    factors: dict[int, int] = {}
    candidate = 2
    while candidate * candidate <= number:
        while number % candidate == 0:
            factors[candidate] = factors.get(candidate, 0) + 1
            number //= candidate
        candidate += 1 if candidate == 2 else 2
        if candidate > ROOT_LIMIT:
            break
        if candidate % 64 == 1:
            budget.spend(1 + number.bit_length() // 64)
    if candidate * candidate <= number:
        return None
    if number > 1:
        factors[number] = factors.get(number, 0) + 1
    return factors

"""Exact arithmetic on quotients of polynomials over the rationals.

The unknowns are variables, pi, e, i, roots of primes, powers such as 2^n, and names of other values, which
are equal only to themselves. A polynomial is a dict from monomials to coefficients. If all unknowns are
algebraically independent (`free`), two values with different representations are provably different.
"""

from dataclasses import dataclass
from fractions import Fraction

Exponent = int | Fraction
Monomial = tuple[tuple[str, Exponent], ...]
Polynomial = dict[Monomial, Fraction]

FACTOR_LIMIT = 10_000  # trial division by primes up to here
IMAGINARY, PI, E = "%i", "%pi", "%e"


class Undecided(Exception):
    """Exact arithmetic cannot decide. The message states the reason."""


class Undefined(Exception):
    """Division by zero."""


class Budget:
    """Limits the work of one comparison: the total number of steps, and the bits of each number."""

    def __init__(self, steps: int, bits: int):
        self.remaining = steps
        self.bits = bits

    def spend(self, steps: int) -> None:
        self.remaining -= steps
        if self.remaining < 0:
            raise Undecided("exact arithmetic exceeds its budget")

    def admit_bits(self, bits: float) -> None:
        """Check the size of a number before it is computed."""
        if bits > self.bits:
            raise Undecided(f"a number of more than {self.bits} bits")
        self.spend(1 + int(bits) // 64)


@dataclass(frozen=True, slots=True)
class RationalFunction:
    numerator: Polynomial
    denominator: Polynomial
    independent: bool


ONE: Polynomial = {(): Fraction(1)}


def rational(value: Fraction | int) -> RationalFunction:
    return RationalFunction({(): Fraction(value)} if value else {}, ONE, True)


def unknown(name: str, free: bool = True, exponent: Exponent = 1) -> RationalFunction:
    return RationalFunction({((name, exponent),): Fraction(1)}, ONE, free)


def as_rational(value: RationalFunction) -> Fraction | None:
    if value.denominator != ONE or len(value.numerator) > 1:
        return None
    return value.numerator.get((), None) if value.numerator else Fraction(0)


def multiply_monomials(left: Monomial, right: Monomial) -> tuple[Monomial, Fraction]:
    """The product of two monomials, with reduced roots and powers of i."""
    if not left or not right:
        return left or right, Fraction(1)
    powers = dict(left)
    for name, exponent in right:
        powers[name] = powers.get(name, 0) + exponent
    return reduce_monomial(powers)


def reduce_monomial(powers: dict[str, Exponent]) -> tuple[Monomial, Fraction]:
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


def add_polynomials(left: Polynomial, right: Polynomial, budget: Budget) -> Polynomial:
    budget.spend(_size(left) + _size(right))
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, Fraction(0)) + coefficient
        if not total[monomial]:
            del total[monomial]
    return total


def multiply_polynomials(left: Polynomial, right: Polynomial, budget: Budget) -> Polynomial:
    if left is ONE or right is ONE:
        return right if left is ONE else left
    budget.spend(_size(left) * _size(right))
    total: Polynomial = {}
    for one, first in left.items():
        for two, second in right.items():
            monomial, factor = multiply_monomials(one, two)
            coefficient = total.get(monomial, Fraction(0)) + first * second * factor
            if coefficient:
                total[monomial] = coefficient
            else:
                total.pop(monomial, None)
    return total


def quotient(over: Polynomial, under: Polynomial, free: bool, budget: Budget) -> RationalFunction:
    """over/under. A denominator with one term is eliminated."""
    if not under:
        raise Undefined("division by zero")
    if not over:
        return RationalFunction({}, ONE, free)
    if len(under) > 1:
        return RationalFunction(over, under, free)
    ((monomial, coefficient),) = under.items()
    inverse, factor = reduce_monomial({name: -exponent for name, exponent in monomial})
    return RationalFunction(multiply_polynomials(over, {inverse: factor / coefficient}, budget), ONE, free)


def add(left: RationalFunction, right: RationalFunction, budget: Budget) -> RationalFunction:
    free = left.independent and right.independent
    if left.denominator == right.denominator:
        return quotient(
            add_polynomials(left.numerator, right.numerator, budget), left.denominator, free, budget
        )
    over = add_polynomials(
        multiply_polynomials(left.numerator, right.denominator, budget),
        multiply_polynomials(right.numerator, left.denominator, budget),
        budget,
    )
    return quotient(over, multiply_polynomials(left.denominator, right.denominator, budget), free, budget)


def multiply(left: RationalFunction, right: RationalFunction, budget: Budget) -> RationalFunction:
    over = multiply_polynomials(left.numerator, right.numerator, budget)
    under = multiply_polynomials(left.denominator, right.denominator, budget)
    return quotient(over, under, left.independent and right.independent, budget)


def divide(left: RationalFunction, right: RationalFunction, budget: Budget) -> RationalFunction:
    over = multiply_polynomials(left.numerator, right.denominator, budget)
    under = multiply_polynomials(left.denominator, right.numerator, budget)
    return quotient(over, under, left.independent and right.independent, budget)


def equal(left: RationalFunction, right: RationalFunction, budget: Budget) -> bool:
    if left.denominator == right.denominator:
        return left.numerator == right.numerator
    return multiply_polynomials(left.numerator, right.denominator, budget) == multiply_polynomials(
        right.numerator, left.denominator, budget
    )


def canonical_name(value: RationalFunction) -> str:
    """A canonical name for a value, so that it can be an unknown in another value."""
    parts = (_canonical_polynomial(value.numerator), _canonical_polynomial(value.denominator))
    return parts[0] if value.denominator == ONE else "/".join(parts)


def _canonical_polynomial(polynomial: Polynomial) -> str:
    terms = sorted(polynomial.items(), key=lambda term: str(term[0]))
    return "(" + "+".join(f"{c.numerator:x}/{c.denominator:x}{monomial}" for monomial, c in terms) + ")"


def unknown_names(value: RationalFunction) -> set[str]:
    return {
        name for side in (value.numerator, value.denominator) for monomial in side for name, _ in monomial
    }


def factorize(number: int, budget: Budget) -> dict[int, int] | None:
    """The prime factors of a positive integer, or None when some are too large to find."""
    factors: dict[int, int] = {}
    candidate = 2
    while candidate * candidate <= number:
        while number % candidate == 0:
            factors[candidate] = factors.get(candidate, 0) + 1
            number //= candidate
        candidate += 1 if candidate == 2 else 2
        if candidate > FACTOR_LIMIT:
            break
        if candidate % 64 == 1:
            budget.spend(1 + number.bit_length() // 64)
    if candidate * candidate <= number:
        return None
    if number > 1:
        factors[number] = factors.get(number, 0) + 1
    return factors

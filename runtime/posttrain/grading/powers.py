"""Evaluates powers exactly: with integer and fractional exponents, and with variables in the exponent."""

from fractions import Fraction
from hashlib import sha256

from posttrain.grading.rational_functions import (
    IMAGINARY,
    ONE,
    PI,
    Budget,
    E,
    Exponent,
    Monomial,
    RationalFunction,
    Undecided,
    Undefined,
    as_rational,
    canonical_name,
    divide,
    factorize,
    multiply,
    rational,
    reduce_monomial,
    unknown,
    unknown_names,
)

MAX_DEGREE = 60
MAX_WRITTEN = 200


def power(base: RationalFunction, exponent: RationalFunction, budget: Budget) -> RationalFunction:
    known = as_rational(exponent)
    if known is None:
        return _symbolic_power(base, exponent, budget)
    if known.denominator == 1:
        return integer_power(base, int(known), budget)
    return fractional_power(base, known, budget)


def integer_power(base: RationalFunction, exponent: int, budget: Budget) -> RationalFunction:
    if exponent < 0:
        return integer_power(divide(rational(1), base, budget), -exponent, budget)
    if not base.numerator:
        return rational(0 if exponent else 1)
    if base.denominator is ONE and len(base.numerator) == 1:
        ((monomial, coefficient),) = base.numerator.items()
        return _monomial_power(monomial, coefficient, exponent, base.independent, budget)
    if exponent > MAX_DEGREE:
        raise Undecided(f"an exponent of a sum larger than {MAX_DEGREE}")
    result = rational(1)
    for _ in range(exponent):
        result = multiply(result, base, budget)
    return result


def _monomial_power(
    monomial: Monomial, coefficient: Fraction, exponent: int, free: bool, budget: Budget
) -> RationalFunction:
    bits = max(coefficient.numerator.bit_length(), coefficient.denominator.bit_length())
    roots = sum(int(name[1:]).bit_length() for name, _ in monomial if name[0] == "#")
    budget.admit_bits((bits - 1 + roots) * exponent)
    raised, factor = reduce_monomial({name: power * exponent for name, power in monomial})
    return RationalFunction({raised: coefficient**exponent * factor}, ONE, free)


def fractional_power(base: RationalFunction, exponent: Fraction, budget: Budget) -> RationalFunction:
    if not base.numerator:
        if exponent < 0:
            raise Undefined("division by zero")
        return rational(0)
    if base.denominator is not ONE or len(base.numerator) > 1:
        return opaque_value("root", [base, rational(exponent)])
    ((monomial, coefficient),) = base.numerator.items()
    if coefficient < 0:
        return _root_of_negative(base, exponent, budget)
    root = _rational_root(coefficient, exponent, budget)
    if root is None or not all(_is_positive(name, power, monomial) for name, power in monomial):
        return opaque_value("root", [base, rational(exponent)])
    reduced, factor = reduce_monomial({name: power * exponent for name, power in monomial})
    return multiply(root, RationalFunction({reduced: factor}, ONE, base.independent), budget)


def _is_positive(name: str, power: Exponent, monomial: Monomial) -> bool:
    """Whether the power can be distributed to this factor: the factor must not be negative."""
    if name[0] == "#" or name in (PI, E) or name.startswith(("#", E)):
        return True
    alone = sum(other[0] not in "#%" for other, _ in monomial) == 1
    return alone and power == 1 and name[0].isalpha()


def _root_of_negative(base: RationalFunction, exponent: Fraction, budget: Budget) -> RationalFunction:
    positive = multiply(base, rational(-1), budget)
    if exponent.denominator % 2:
        sign = rational(-1 if exponent.numerator % 2 else 1)
        return multiply(sign, fractional_power(positive, exponent, budget), budget)
    if (
        exponent.denominator == 2
        and not any(name[0] not in "#%" for name in unknown_names(base))
        and IMAGINARY not in unknown_names(base)
    ):
        phase = integer_power(unknown(IMAGINARY), exponent.numerator % 4, budget)
        return multiply(phase, fractional_power(positive, exponent, budget), budget)
    return opaque_value("root", [base, rational(exponent)])


def _rational_root(number: Fraction, exponent: Fraction, budget: Budget) -> RationalFunction | None:
    over, under = factorize(number.numerator, budget), factorize(number.denominator, budget)
    if over is None or under is None:
        return _exact_root(number, exponent)
    powers: dict[str, Exponent] = {f"#{prime}": count * exponent for prime, count in over.items()}
    powers |= {f"#{prime}": -count * exponent for prime, count in under.items()}
    for name, times in powers.items():
        budget.admit_bits(int(abs(times) + 1) * int(name[1:]).bit_length())
    monomial, factor = reduce_monomial(powers)
    return RationalFunction({monomial: factor}, ONE, True)


def _exact_root(number: Fraction, exponent: Fraction) -> RationalFunction | None:
    """The root of a number that is too large to factor, if it is a perfect power."""
    if abs(exponent.numerator) != 1 or exponent.denominator > 64:
        return None
    roots = [_integer_root(part, exponent.denominator) for part in (number.numerator, number.denominator)]
    if roots[0] is None or roots[1] is None:
        return None
    return rational(Fraction(roots[0], roots[1]) ** exponent.numerator)


def _integer_root(number: int, degree: int) -> int | None:
    low, high = 1, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**degree < number else (low, middle)
    return low if low**degree == number else None


def _symbolic_power(base: RationalFunction, exponent: RationalFunction, budget: Budget) -> RationalFunction:
    """Evaluate a^(n+1) as a * a^n, where a^n is an unknown and a is a prime, e or a variable."""
    # 2^n is algebraically independent of other unknowns; this is not known for 2^sqrt(2).
    varies = all(any(name[0] not in "#%" for name, _ in term) for term in exponent.numerator if term)
    free = base.independent and exponent.independent and IMAGINARY not in unknown_names(exponent) and varies
    if exponent.denominator is not ONE or base.denominator is not ONE or len(base.numerator) != 1:
        return opaque_value("power", [base, exponent])
    parts = _power_base(base, budget)
    if parts is None:
        return opaque_value("power", [base, exponent])
    result = rational(1)
    for monomial, coefficient in exponent.numerator.items():
        term = _power_term(parts, monomial, coefficient, base, budget)
        result = multiply(result, term, budget)
    return RationalFunction(result.numerator, result.denominator, free and result.independent)


def _power_base(base: RationalFunction, budget: Budget) -> dict[str, Exponent] | None:
    ((monomial, coefficient),) = base.numerator.items()
    if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        return {monomial[0][0]: 1} if monomial[0][0] == E or monomial[0][0][0].isalpha() else None
    if monomial or coefficient <= 0:
        return None
    over, under = factorize(coefficient.numerator, budget), factorize(coefficient.denominator, budget)
    if over is None or under is None:
        return None
    parts: dict[str, Exponent] = {f"#{prime}": count for prime, count in over.items()}
    return parts | {f"#{prime}": -count for prime, count in under.items()}


def _power_term(
    parts: dict[str, Exponent],
    monomial: Monomial,
    coefficient: Fraction,
    base: RationalFunction,
    budget: Budget,
) -> RationalFunction:
    if not monomial:
        return power(base, rational(coefficient), budget)
    # The prefix "&" instead of "#" exempts powers with a variable exponent from the reduction of roots.
    powers = [
        (f"{name.replace('#', '&')}^{_shorten(str(monomial))}", count * coefficient)
        for name, count in parts.items()
    ]
    return RationalFunction({tuple(sorted(powers)): Fraction(1)}, ONE, True)


def opaque_value(name: str, arguments: list[RationalFunction]) -> RationalFunction:
    """A value that is known only by its name and arguments.

    Long names are hashed, because nested names would grow without bound.
    """
    return unknown(f"@{name}({_shorten(','.join(map(canonical_name, arguments)))})", free=False)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_WRITTEN else sha256(text.encode()).hexdigest()

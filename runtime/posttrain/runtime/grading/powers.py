"""Powers in exact arithmetic: whole, fractional, and with variables in the exponent."""

from fractions import Fraction
from hashlib import sha256

from posttrain.runtime.grading.ring import (
    IMAGINARY,
    ONE,
    PI,
    Budget,
    E,
    Exponent,
    Monomial,
    Undefined,
    Unsettled,
    Value,
    as_rational,
    divide,
    factored,
    multiply,
    names,
    rational,
    reduced,
    unknown,
    written,
)

DEGREE_AT_MOST = 60
WRITTEN_AT_MOST = 200


def power(base: Value, exponent: Value, budget: Budget) -> Value:
    known = as_rational(exponent)
    if known is None:
        return _symbolic(base, exponent, budget)
    if known.denominator == 1:
        return whole(base, int(known), budget)
    return fractional(base, known, budget)


def whole(base: Value, exponent: int, budget: Budget) -> Value:
    if exponent < 0:
        return whole(divide(rational(1), base, budget), -exponent, budget)
    if not base.over:
        return rational(0 if exponent else 1)
    if base.under is ONE and len(base.over) == 1:
        ((monomial, coefficient),) = base.over.items()
        return _single(monomial, coefficient, exponent, base.free, budget)
    if exponent > DEGREE_AT_MOST:
        raise Unsettled(f"a power beyond {DEGREE_AT_MOST} of a sum")
    result = rational(1)
    for _ in range(exponent):
        result = multiply(result, base, budget)
    return result


def _single(monomial: Monomial, coefficient: Fraction, exponent: int, free: bool, budget: Budget) -> Value:
    bits = max(coefficient.numerator.bit_length(), coefficient.denominator.bit_length())
    roots = sum(int(name[1:]).bit_length() for name, _ in monomial if name[0] == "#")
    budget.admit((bits - 1 + roots) * exponent)
    raised, factor = reduced({name: power * exponent for name, power in monomial})
    return Value({raised: coefficient**exponent * factor}, ONE, free)


def fractional(base: Value, exponent: Fraction, budget: Budget) -> Value:
    if not base.over:
        if exponent < 0:
            raise Undefined("division by zero")
        return rational(0)
    if base.under is not ONE or len(base.over) > 1:
        return opaque("root", [base, rational(exponent)])
    ((monomial, coefficient),) = base.over.items()
    if coefficient < 0:
        return _of_negative(base, exponent, budget)
    root = _root(coefficient, exponent, budget)
    if root is None or not all(_positive(name, power, monomial) for name, power in monomial):
        return opaque("root", [base, rational(exponent)])
    kept, factor = reduced({name: power * exponent for name, power in monomial})
    return multiply(root, Value({kept: factor}, ONE, base.free), budget)


def _positive(name: str, power: Exponent, monomial: Monomial) -> bool:
    """Whether (name^power)^q may be taken factor by factor."""
    if name[0] == "#" or name in (PI, E) or name.startswith(("#", E)):
        return True
    alone = sum(other[0] not in "#%" for other, _ in monomial) == 1
    return alone and power == 1 and name[0].isalpha()


def _of_negative(base: Value, exponent: Fraction, budget: Budget) -> Value:
    positive = multiply(base, rational(-1), budget)
    if exponent.denominator % 2:
        sign = rational(-1 if exponent.numerator % 2 else 1)
        return multiply(sign, fractional(positive, exponent, budget), budget)
    if (
        exponent.denominator == 2
        and not any(name[0] not in "#%" for name in names(base))
        and IMAGINARY not in names(base)
    ):
        turned = whole(unknown(IMAGINARY), exponent.numerator % 4, budget)
        return multiply(turned, fractional(positive, exponent, budget), budget)
    return opaque("root", [base, rational(exponent)])


def _root(number: Fraction, exponent: Fraction, budget: Budget) -> Value | None:
    over, under = factored(number.numerator, budget), factored(number.denominator, budget)
    if over is None or under is None:
        return _exact_root(number, exponent)
    powers: dict[str, Exponent] = {f"#{prime}": count * exponent for prime, count in over.items()}
    powers |= {f"#{prime}": -count * exponent for prime, count in under.items()}
    for name, times in powers.items():
        budget.admit(int(abs(times) + 1) * int(name[1:]).bit_length())
    monomial, factor = reduced(powers)
    return Value({monomial: factor}, ONE, True)


def _exact_root(number: Fraction, exponent: Fraction) -> Value | None:
    """Large numbers are not factored, but a perfect power is seen."""
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


def _symbolic(base: Value, exponent: Value, budget: Budget) -> Value:
    """a^(n+1) as a * a^n, with a^n an unknown of its own; for prime a, for e, for a variable."""
    # 2^n is independent of everything; of 2^(root of 2) that is not known.
    varies = all(any(name[0] not in "#%" for name, _ in term) for term in exponent.over if term)
    free = base.free and exponent.free and IMAGINARY not in names(exponent) and varies
    if exponent.under is not ONE or base.under is not ONE or len(base.over) != 1:
        return opaque("power", [base, exponent])
    parts = _power_base(base, budget)
    if parts is None:
        return opaque("power", [base, exponent])
    result = rational(1)
    for monomial, coefficient in exponent.over.items():
        made = _term(parts, monomial, coefficient, base, budget)
        result = multiply(result, made, budget)
    return Value(result.over, result.under, free and result.free)


def _power_base(base: Value, budget: Budget) -> dict[str, Exponent] | None:
    ((monomial, coefficient),) = base.over.items()
    if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        return {monomial[0][0]: 1} if monomial[0][0] == E or monomial[0][0][0].isalpha() else None
    if monomial or coefficient <= 0:
        return None
    over, under = factored(coefficient.numerator, budget), factored(coefficient.denominator, budget)
    if over is None or under is None:
        return None
    parts: dict[str, Exponent] = {f"#{prime}": count for prime, count in over.items()}
    return parts | {f"#{prime}": -count for prime, count in under.items()}


def _term(
    parts: dict[str, Exponent], monomial: Monomial, coefficient: Fraction, base: Value, budget: Budget
) -> Value:
    if not monomial:
        return power(base, rational(coefficient), budget)
    # "&" in place of "#": a power with a variable exponent is not reduced as a root is.
    powers = [
        (f"{name.replace('#', '&')}^{_brief(str(monomial))}", count * coefficient)
        for name, count in parts.items()
    ]
    return Value({tuple(sorted(powers)): Fraction(1)}, ONE, True)


def opaque(name: str, arguments: list[Value]) -> Value:
    """A value known only by its name and arguments. Long ones by their digest: written out within each
    other they would grow without bound."""
    return unknown(f"@{name}({_brief(','.join(map(written, arguments)))})", free=False)


def _brief(text: str) -> str:
    return text if len(text) <= WRITTEN_AT_MOST else sha256(text.encode()).hexdigest()

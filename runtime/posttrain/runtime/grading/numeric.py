"""Values of expressions to many digits, by mpmath. For workers: it may take any time at all."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from posttrain.runtime.grading.context import Outcome
from posttrain.runtime.grading.evaluation import (
    Amount,
    NoValue,
    Point,
    evaluated,
    is_real,
    multiple_precision,
)
from posttrain.runtime.grading.ring import Unsettled
from posttrain.runtime.grading.tree import Call, Constant, Node, children, holds, holds_call, symbols

DIGITS = 60
LADDER = (DIGITS, 250, 1000)
ROUGH = (24,)  # for integrals, limits and endless sums, whose value is itself an estimate
POINTS = 12
SHRUNK = 1e-20
POINTS_AT_LEAST = 4
DISCRETE = frozenset(("factorial", "factorial2", "binomial", "sum", "product"))
ESTIMATED = frozenset(("integral", "limit"))


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numerical half of a worker: proves inequality at a point, finds agreement at many."""

    def same(self, left: Node, right: Node) -> Outcome:
        names = sorted(symbols(left) | symbols(right))
        digits = ROUGH if _estimated(left) or _estimated(right) else LADDER
        if not names:
            return _constants(left, right, digits)
        agreed = 0
        for points, real_only in _points(names, any(holds_call(node, DISCRETE) for node in (left, right))):
            for point in points:
                verdict = _at(left, right, point, real_only, digits[:2])
                if verdict is False:
                    return Outcome(False, f"they differ at {_shown(point)}", "symbolic")
                agreed += verdict is True
            if agreed >= POINTS_AT_LEAST:
                return Outcome(True, f"they agree to {digits[0]} digits at {agreed} points", "symbolic")
        return Outcome(None, "no point was found where both sides have a value", "symbolic")

    def value(self, node: Node) -> Fraction | None:
        if symbols(node):
            return None
        try:
            amount = evaluated(node, {}, DIGITS)
        except (NoValue, Unsettled):
            return None
        return _fraction(amount) if is_real(amount) else None


def _shown(point: Point) -> str:
    return ", ".join(f"{name} = {value}" for name, value in point.items())


def _points(names: list[str], discrete: bool) -> Iterator[tuple[list[Point], bool]]:
    """Real points first; whole ones where those say nothing; then points where complex values count. Only
    whole ones for factorials: what they are between does not matter."""
    draw = random.Random(" ".join(names))
    whole = [{name: Fraction(draw.randint(1, 12)) for name in names} for _ in range(2 * POINTS)]
    if discrete:
        yield whole, True
        yield whole, False
        return
    reals = [
        {name: Fraction(draw.randint(-300, 500), draw.randint(60, 127)) for name in names}
        for _ in range(2 * POINTS)
    ]
    yield reals[:POINTS], True
    yield reals[POINTS:], True
    yield whole, True
    yield reals[:POINTS], False


def _at(left: Node, right: Node, point: Point, real_only: bool, ladder: tuple[int, ...]) -> bool | None:
    """Agreement is asked for at the first precision only: a difference must hold at each."""
    before: Amount | None = None
    try:
        for digits in ladder:
            one, two = evaluated(left, point, digits), evaluated(right, point, digits)
            if real_only and not (is_real(one) and is_real(two)):
                return None
            if not _apart(one, two, digits, before):
                return True
            before = abs(one - two)
        return before is not None and len(ladder) == 1 and before < _small(ladder[0])
    except (NoValue, Unsettled):
        return None


def _constants(left: Node, right: Node, ladder: tuple[int, ...]) -> Outcome:
    one = two = multiple_precision().mpf(0)
    before: Amount | None = None
    try:
        for digits in ladder:
            one, two = evaluated(left, {}, digits), evaluated(right, {}, digits)
            gap = abs(one - two)
            sure = gap > _small(digits) or (before is not None and digits == ladder[-1])
            if _apart(one, two, digits, before) and sure:
                return Outcome(False, f"they differ within {digits} digits", "symbolic")
            before = gap
        if max(abs(one), abs(two)) > multiple_precision().mpf(10) ** max(ladder[-1] // 3, 100):
            return Outcome(None, "numbers too large to tell apart", "symbolic")
        return Outcome(True, f"they agree to {ladder[-1]} digits", "symbolic")
    except (NoValue, Unsettled) as reason:
        return Outcome(None, str(reason) or "no value", "symbolic")


def _small(digits: int) -> Amount:
    """What the working precision can blur, a third of the digits being left for that."""
    return multiple_precision().mpf(10) ** -(digits * 2 // 3)


def _apart(one: Amount, two: Amount, digits: int, before: Amount | None) -> bool:
    """Apart by more than can be blurred. A gap to zero that shrinks as digits are added is blur as well."""
    scale, gap = max(abs(one), abs(two)), abs(one - two)
    if gap <= scale * _small(digits):
        return False
    return before is None or gap > before * SHRUNK


def _estimated(node: Node) -> bool:
    endless = isinstance(node, Call) and node.name in ("sum", "product") and holds(node, Constant)
    return endless or holds_call(node, ESTIMATED) or any(_estimated(child) for child in children(node))


def _fraction(amount: Amount) -> Fraction | None:
    real = multiple_precision().mpf(amount.real)
    if not multiple_precision().isfinite(real):
        return None
    sign, mantissa, exponent, _ = real._mpf_
    if abs(exponent) > 10_000:
        return None
    return Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent

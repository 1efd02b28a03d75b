"""Compares expressions numerically to many digits with mpmath. Runs in workers, within a number of steps."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from posttrain.grading.comparison import SCALAR_NODES
from posttrain.grading.context import Outcome
from posttrain.grading.expression_tree import (
    Call,
    Constant,
    Node,
    Sign,
    children,
    contains_call,
    contains_node,
    symbols,
)
from posttrain.grading.form_checks import is_label
from posttrain.grading.mpmath_evaluation import (
    MpNumber,
    NoValue,
    Point,
    evaluate_numerically,
    is_real,
    mpmath_context,
)
from posttrain.grading.rational_functions import Undecided
from posttrain.grading.scalars import infinity_sign

DIGITS = 60
PRECISIONS = (DIGITS, 250, 1000)
ESTIMATE_PRECISIONS = (24,)  # for integrals, limits and infinite sums, which are estimates themselves
POINTS = 12
SHRINK_RATIO = 1e-20
MIN_POINTS = 4
DISCRETE_CALLS = frozenset(("factorial", "factorial2", "binomial", "sum", "product"))
ESTIMATED_CALLS = frozenset(("integral", "limit"))


@dataclass(frozen=True, slots=True)
class NumericChecker:
    """Compares expressions at sampled points: one difference proves inequality, many agreements equality."""

    def compare(self, left: Node, right: Node) -> Outcome:
        names = sorted(symbols(left) | symbols(right))
        digits = ESTIMATE_PRECISIONS if _is_estimated(left) or _is_estimated(right) else PRECISIONS
        if not names:
            return _compare_constants(left, right, digits)
        agreed = 0
        for points, real_only in _sample_points(
            names, any(contains_call(node, DISCRETE_CALLS) for node in (left, right))
        ):
            for point in points:
                verdict = _agrees_at(left, right, point, real_only, digits[:2])
                if verdict is False:
                    return Outcome(False, f"different values at {_format_point(point)}", "symbolic")
                agreed += verdict is True
            if agreed >= MIN_POINTS:
                return Outcome(True, f"equal to {digits[0]} digits at {agreed} points", "symbolic")
        return Outcome(None, "no point found where both sides are defined", "symbolic")

    def value(self, node: Node) -> Fraction | None:
        if symbols(node):
            return None
        try:
            amount = evaluate_numerically(node, {}, DIGITS)
        except (NoValue, Undecided):
            return None
        return _to_fraction(amount) if is_real(amount) else None


def missing_value(node: Node) -> str | None:
    """Why a part of an answer has no value that can be computed, or None. Raises StepLimit."""
    if not isinstance(node, SCALAR_NODES):
        return next((reason for child in children(node) if (reason := missing_value(child))), None)
    if contains_node(node, Sign) or infinity_sign(node) or is_label(node):
        return None
    names = sorted(symbols(node))
    points = next(_sample_points(names, contains_call(node, DISCRETE_CALLS)))[0] if names else [Point()]
    digits = (ESTIMATE_PRECISIONS if _is_estimated(node) else PRECISIONS)[0]
    reason = None
    for point in points:
        try:
            evaluate_numerically(node, point, digits)
        except NoValue as error:
            reason = str(error) or "no value"
        except Undecided as error:
            return str(error)
        else:
            return None
    return None if names else reason


def _format_point(point: Point) -> str:
    return ", ".join(f"{name} = {value}" for name, value in point.items())


def _sample_points(names: list[str], discrete: bool) -> Iterator[tuple[list[Point], bool]]:
    """Sets of sample points, each with whether only real values count.

    Real points come first, then integers, then the same points with complex values. Discrete functions such
    as factorials are sampled only at integers.
    """
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


def _agrees_at(
    left: Node, right: Node, point: Point, real_only: bool, precisions: tuple[int, ...]
) -> bool | None:
    """Whether both sides agree at a point. Agreement at one precision is enough; a difference needs all."""
    before: MpNumber | None = None
    try:
        for digits in precisions:
            one, two = evaluate_numerically(left, point, digits), evaluate_numerically(right, point, digits)
            if real_only and not (is_real(one) and is_real(two)):
                return None
            if not _differs(one, two, digits, before):
                return True
            before = abs(one - two)
        return before is not None and len(precisions) == 1 and before < _tolerance(precisions[0])
    except (NoValue, Undecided):
        return None


def _compare_constants(left: Node, right: Node, precisions: tuple[int, ...]) -> Outcome:
    one = two = mpmath_context().mpf(0)
    before: MpNumber | None = None
    try:
        for digits in precisions:
            one, two = evaluate_numerically(left, {}, digits), evaluate_numerically(right, {}, digits)
            gap = abs(one - two)
            sure = gap > _tolerance(digits) or (before is not None and digits == precisions[-1])
            if _differs(one, two, digits, before) and sure:
                return Outcome(False, f"different within {digits} digits", "symbolic")
            before = gap
        if max(abs(one), abs(two)) > mpmath_context().mpf(10) ** max(precisions[-1] // 3, 100):
            return Outcome(None, "numbers too large to distinguish", "symbolic")
        return Outcome(True, f"equal to {precisions[-1]} digits", "symbolic")
    except (NoValue, Undecided) as reason:
        return Outcome(None, str(reason) or "no value", "symbolic")


def _tolerance(digits: int) -> MpNumber:
    """The relative error that rounding can cause. A third of the digits is reserved for it."""
    return mpmath_context().mpf(10) ** -(digits * 2 // 3)


def _differs(one: MpNumber, two: MpNumber, digits: int, before: MpNumber | None) -> bool:
    """Whether two values differ by more than rounding. A gap that shrinks with more digits is rounding."""
    scale, gap = max(abs(one), abs(two)), abs(one - two)
    if gap <= scale * _tolerance(digits):
        return False
    return before is None or gap > before * SHRINK_RATIO


def _is_estimated(node: Node) -> bool:
    infinite = isinstance(node, Call) and node.name in ("sum", "product") and contains_node(node, Constant)
    return (
        infinite
        or contains_call(node, ESTIMATED_CALLS)
        or any(_is_estimated(child) for child in children(node))
    )


def _to_fraction(amount: MpNumber) -> Fraction | None:
    real = mpmath_context().mpf(amount.real)
    if not mpmath_context().isfinite(real):
        return None
    sign, mantissa, exponent, _ = real._mpf_
    if abs(exponent) > 10_000:
        return None
    return Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent

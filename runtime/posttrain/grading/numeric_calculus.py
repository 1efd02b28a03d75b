"""Evaluates sums, products, integrals and limits numerically.

A value that does not agree at two precisions is treated as divergent.
"""

from collections.abc import Callable
from typing import Any

MAX_TERMS = 20_000
GUARD_DIGITS = 12
AGREED_DIGITS = 16

MpNumber = Any  # an mpf or an mpc: mpmath has no type annotations


def evaluate_binder(
    mp: Any, name: str, ends: tuple[MpNumber, MpNumber], at: Callable[[MpNumber], MpNumber]
) -> MpNumber:
    """The value of a sum, product, integral or limit. Raises ValueError if it has none."""
    first, second = ends
    if name in ("sum", "product") and mp.isfinite(first) and mp.isfinite(second):
        return _finite_series(mp, name, first, second, at)
    try:
        return _converged(mp, name, ends, at)
    except mp.NoConvergence as error:
        raise ValueError(str(error)) from error


def _converged(
    mp: Any, name: str, ends: tuple[MpNumber, MpNumber], at: Callable[[MpNumber], MpNumber]
) -> MpNumber:
    known = METHODS[name](mp, ends, at)
    with mp.workdps(mp.dps + GUARD_DIGITS):
        again = METHODS[name](mp, ends, at)
    if not mp.isfinite(known) or abs(known - again) > max(1, abs(again)) * mp.mpf(10) ** -AGREED_DIGITS:
        raise ValueError(f"no convergence of the {name}")
    return again


def _finite_series(
    mp: Any, name: str, first: MpNumber, last: MpNumber, at: Callable[[MpNumber], MpNumber]
) -> MpNumber:
    if first != int(first) or last != int(last) or last - first > MAX_TERMS:
        raise ValueError("bounds that are not integers, or too many terms")
    terms = (at(mp.mpf(n)) for n in range(int(first), int(last) + 1))
    return mp.fsum(terms) if name == "sum" else mp.fprod(terms)


def _infinite_sum(mp: Any, ends: tuple[MpNumber, MpNumber], at: Callable[[MpNumber], MpNumber]) -> MpNumber:
    return mp.nsum(at, [ends[0], ends[1]])


def _infinite_product(
    mp: Any, ends: tuple[MpNumber, MpNumber], at: Callable[[MpNumber], MpNumber]
) -> MpNumber:
    return mp.nprod(at, [ends[0], ends[1]])


def _integral(mp: Any, ends: tuple[MpNumber, MpNumber], at: Callable[[MpNumber], MpNumber]) -> MpNumber:
    low, high = ends
    inside = [mp.mpf(0)] if not (mp.isfinite(low) or mp.isfinite(high)) else []
    return mp.quad(at, [low, *inside, high])


def _limit(mp: Any, ends: tuple[MpNumber, MpNumber], at: Callable[[MpNumber], MpNumber]) -> MpNumber:
    target, side = ends
    if not mp.isfinite(target) or side:
        return mp.limit(at, target, direction=side or 1)
    above, below = (mp.limit(at, target, direction=one) for one in (1, -1))
    if abs(above - below) > max(1, abs(above)) * mp.mpf(10) ** -AGREED_DIGITS:
        raise ValueError("different one-sided limits")
    return above


METHODS: dict[str, Callable[[Any, tuple[MpNumber, MpNumber], Callable[[MpNumber], MpNumber]], MpNumber]] = {
    "sum": _infinite_sum,
    "product": _infinite_product,
    "integral": _integral,
    "limit": _limit,
}

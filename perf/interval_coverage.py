"""How often the intervals hold the truth: `python perf/interval_coverage.py > perf/interval_coverage.md`.

Every case has a known truth: how often does the 95 % interval of `confidence_intervals.py` hold it, and how
often does a gate whose threshold is the truth, where neither verdict is right, pass or fail by mistake?
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence

from posttrain.runtime.evaluation.statistics.confidence_intervals import (
    Estimate,
    estimate_difference,
    estimate_mean,
)

_RUNS = 1000
_CONFIDENCE = 0.95
Draw = Callable[[random.Random, int], list[float]]


def main() -> None:
    print("# Coverage of the intervals\n")
    print(
        "Made by `python perf/interval_coverage.py`. How often a 95 % interval holds the truth: for rates of"
        f" one completion a prompt as exact sums, else over {_RUNS:,} seeded draws (300 for differences of"
        " means), where a"
        f" true 95 % is seen as {_spread()}. `before` is what stood here at first, over 200 draws: Wilson's"
        " interval as it is in books, and else the percentiles of resampled means.\n"
    )
    _section("Rates, one completion a prompt (Wilson, Poisson at the ends)", _rates())
    _section("Rates, 8 completions a prompt (Wilson, clustered)", _clustered())
    _section("Means (Student's t and the studentised bootstrap)", _means())
    _section("Paired differences of rates (Tango)", _pairs())
    _section("Paired differences of means", _gains())
    _wrong_verdicts()


def _spread() -> str:
    error = 1.96 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / _RUNS)
    return f"{_CONFIDENCE - error:.3f} to {_CONFIDENCE + error:.3f}"


def _section(title: str, rows: Iterator[tuple[str, str, str, str]]) -> None:
    print(f"## {title}\n\n| | items | held | before |\n|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def _rates() -> Iterator[tuple[str, str, str, str]]:
    for share in (0.5, 0.7, 0.9, 0.97, 0.99, 0.995):
        for count in (20, 50, 200, 1000):
            held = _exact_coverage(share, count, lambda found, at=share: found.low <= at <= found.high)
            yield f"rate {share:g}", str(count), f"{held:.3f}", f"{_exactly_before(share, count):.3f}"


def _exact_coverage(share: float, count: int, holds: Callable[[Estimate], bool]) -> float:
    """The chance that something holds of the estimate, over all numbers of successes."""
    total = 0.0
    for successes in range(count + 1):
        chance = _chance(successes, count, share)
        if chance > 1e-12:
            values = [1.0] * successes + [0.0] * (count - successes)
            total += chance * holds(_estimated(values, True, count, share))
    return total


def _chance(successes: int, count: int, share: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
    return math.exp(ways + successes * math.log(share) + (count - successes) * math.log1p(-share))


def _exactly_before(share: float, count: int) -> float:
    z, total = 1.959964, 0.0
    for successes in range(count + 1):
        found = successes / count
        middle = found + z * z / (2 * count)
        half = z * math.sqrt(found * (1 - found) / count + z * z / (4 * count * count))
        if abs(share * (1 + z * z / count) - middle) <= half:
            total += _chance(successes, count, share)
    return total


def _clustered() -> Iterator[tuple[str, str, str, str]]:
    """Every prompt has a rate of its own, from a beta distribution; `alike` is the correlation within."""
    for share in (0.5, 0.8, 0.95, 0.99):
        for alike in (0.0, 0.3, 0.8):
            for count in (20, 100, 300):
                draw = _draw_clustered(share, alike, 8)
                held = _coverage(draw, count, share, rate=True, trials=8 * count)
                before = _held_before(draw, count, share)
                yield f"rate {share:g}, alike {alike:g}", f"{count} x 8", f"{held:.3f}", before


def _draw_clustered(share: float, alike: float, samples: int) -> Draw:
    def draw(by: random.Random, count: int) -> list[float]:
        found: list[float] = []
        for _ in range(count):
            own = share
            if alike:
                weight = 1 / alike - 1
                own = by.betavariate(share * weight, (1 - share) * weight)
            found.append(sum(by.random() < own for _ in range(samples)) / samples)
        return found

    return draw


_MEANS: list[tuple[str, float, Draw]] = [
    ("even", 0.5, lambda by, count: [by.random() for _ in range(count)]),
    ("lopsided (beta .5, 5)", 0.5 / 5.5, lambda by, count: [by.betavariate(0.5, 5) for _ in range(count)]),
    (
        "mostly 1, else spread",
        0.925,
        lambda by, count: [1.0 if by.random() < 0.9 else by.random() / 2 for _ in range(count)],
    ),
    (
        "right (0.7) and format (0.9 x 0.2)",
        0.88,
        lambda by, count: [(by.random() < 0.7) + 0.2 * (by.random() < 0.9) for _ in range(count)],
    ),
    ("long tail", math.exp(0.5), lambda by, count: [by.lognormvariate(0, 1) for _ in range(count)]),
]


def _means() -> Iterator[tuple[str, str, str, str]]:
    for name, truth, draw in _MEANS:
        for count in (20, 50, 200):
            runs = _RUNS
            held = _coverage(draw, count, truth, rate=False, trials=count, runs=runs)
            yield name, str(count), f"{held:.3f}", _held_before(draw, count, truth, runs)


def _pairs() -> Iterator[tuple[str, str, str, str]]:
    for gain in (0.0, 0.05, 0.2):
        for changed in (0.05, 0.2, 0.4):
            for count in (30, 100, 500):
                if changed > abs(gain):
                    held, before = _pairs_coverage(gain, changed, count)
                    yield f"gain {gain:g}, {changed:g} differ", str(count), f"{held:.3f}", before


def _pairs_coverage(gain: float, changed: float, count: int) -> tuple[float, str]:
    by = random.Random(f"{gain} {changed} {count}")
    held, old = 0, 0
    for _ in range(_RUNS):
        after, before = _pair(by, gain, changed, count)
        found = estimate_difference(after, before, margin=0.0, confidence=_CONFIDENCE, seed=1)
        held += found.low <= gain <= found.high
    for _ in range(200):
        after, before = _pair(by, gain, changed, count)
        low, high = _percentiles([one - other for one, other in zip(after, before, strict=True)])
        old += low <= gain <= high
    return held / _RUNS, f"{old / 200:.2f}"


def _pair(by: random.Random, gain: float, changed: float, count: int) -> tuple[list[float], list[float]]:
    up = (changed + gain) / 2
    after: list[float] = []
    before: list[float] = []
    for _ in range(count):
        drawn = by.random()
        one, other = (1.0, 0.0) if drawn < up else (0.0, 1.0) if drawn < changed else (1.0, 1.0)
        after.append(one)
        before.append(other)
    return after, before


def _gains() -> Iterator[tuple[str, str, str, str]]:
    """Rates of 4 completions a prompt, of two models that share what is hard about a prompt."""
    for count in (30, 100, 400):
        by = random.Random(count)
        held, runs = 0, 300
        for _ in range(runs):
            hard = [by.betavariate(2, 2) for _ in range(count)]
            before = [sum(by.random() < own for _ in range(4)) / 4 for own in hard]
            after = [sum(by.random() < 0.8 * own + 0.2 for _ in range(4)) / 4 for own in hard]
            found = estimate_difference(after, before, margin=0.0, confidence=_CONFIDENCE, seed=1)
            held += found.low <= 0.1 <= found.high
        yield "gain 0.1 of 4 completions", str(count), f"{held / runs:.3f}", "-"


def _wrong_verdicts() -> None:
    """At the threshold itself, each verdict but `inconclusive` is a mistake: 2.5 % each at most."""
    print("## Gates at their threshold\n")
    print("Where the truth lies on the threshold, `pass` and `fail` are mistakes: no more than 0.025 each.\n")
    print("| | items | passed | failed |\n|---|---|---|---|")
    error = (1 - _CONFIDENCE) / 2
    for share in (0.5, 0.8, 0.95, 0.99):
        for count in (50, 200, 1000):
            passed = _exact_coverage(
                share, count, lambda found, at=share: found.low >= at and found.p_above <= error
            )
            failed = _exact_coverage(
                share, count, lambda found, at=share: found.high <= at and found.p_below <= error
            )
            print(f"| rate at least {share:g} | {count} | {passed:.3f} | {failed:.3f} |", flush=True)
    for changed in (0.05, 0.2):
        for count in (50, 200, 1000):
            by = random.Random(f"{changed} {count}")
            passed = failed = 0
            for _ in range(_RUNS):
                after, before = _pair(by, 0.0, changed, count)
                found = estimate_difference(after, before, margin=0.0, confidence=_CONFIDENCE, seed=1)
                passed += found.low > 0 and found.p_above <= error
                failed += found.high <= 0 and found.p_below <= error
            row = f"better than, {changed:g} differ | {count} | {passed / _RUNS:.3f} | {failed / _RUNS:.3f}"
            print(f"| {row} |", flush=True)


def _estimated(values: Sequence[float], rate: bool, trials: int, threshold: float) -> Estimate:
    return estimate_mean(
        values, rate=rate, trials=trials, threshold=threshold, confidence=_CONFIDENCE, seed=1
    )


def _coverage(draw: Draw, count: int, truth: float, *, rate: bool, trials: int, runs: int = _RUNS) -> float:
    by = random.Random(f"{truth} {count} {trials}")
    held = 0
    for _ in range(runs):
        found = _estimated(draw(by, count), rate, trials, truth)
        held += found.low <= truth <= found.high
    return held / runs


def _held_before(draw: Draw, count: int, truth: float, runs: int = 200) -> str:
    by = random.Random(f"{truth} {count} before")
    held = 0
    for _ in range(runs):
        low, high = _percentiles(draw(by, count))
        held += low <= truth <= high
    return f"{held / runs:.2f}"


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The interval that stood here first."""
    if len(set(values)) == 1:
        return values[0], values[0]
    draw = random.Random(1)
    means = sorted(sum(draw.choices(values, k=len(values))) / len(values) for _ in range(200))
    return means[5], means[194]


if __name__ == "__main__":
    main()

"""Other intervals for means beside ours: `python perf/mean_intervals.py > perf/mean_intervals.md`.

How often does each hold the truth, and how wide is it beside Student's? All of them see the same draws.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posttrain.spec.eval_statistics import normal_cdf, normal_quantile, student_t_quantile

_RUNS = 400
_DRAWS = 999
_Z = normal_quantile(0.975)
Ends = tuple[float, float]
_CASES: dict[str, tuple[Callable[[Any, int], Any], float]] = {
    "even": (lambda by, count: by.random(count), 0.5),
    "lopsided (beta .5, 5)": (lambda by, count: by.beta(0.5, 5, count), 0.5 / 5.5),
    "two parts (.7, .2 x .9)": (
        lambda by, count: (by.random(count) < 0.7) + 0.2 * (by.random(count) < 0.9),
        0.88,
    ),
    "long tail (lognormal, 0.7)": (lambda by, count: by.lognormal(0, 0.7, count), math.exp(0.245)),
    "long tail (lognormal, 1)": (lambda by, count: by.lognormal(0, 1, count), math.exp(0.5)),
}


def main() -> None:
    print("# Intervals for means that could stand in ours' place\n")
    error = 1.96 * math.sqrt(0.95 * 0.05 / _RUNS)
    print(
        f"Made by `python perf/mean_intervals.py`: {_RUNS} draws of each case, {_DRAWS} resamplings of each."
        " How often a 95 % interval holds the truth, and in brackets its width beside Student's. A true 95 %"
        f" is seen as {0.95 - error:.3f} to {0.95 + error:.3f}. `ours` is the wider of Student's and the"
        " studentised bootstrap; Hall's is the bootstrap of the statistic that he made straight; BCa is"
        " Efron's.\n"
    )
    print("| | items | Student's | ours | Hall's | BCa |\n|---|--:|--:|--:|--:|--:|")
    for name, (draw, truth) in _CASES.items():
        for count in (20, 50, 200):
            print(f"| {name} | {count} | {' | '.join(_row(draw, truth, count))} |", flush=True)


def _row(draw: Callable[[Any, int], Any], truth: float, count: int) -> list[str]:
    by = np.random.default_rng(count)
    held: dict[str, int] = {}
    width: dict[str, float] = {}
    for _ in range(_RUNS):
        for name, (low, high) in _ends(np.asarray(draw(by, count), float), by).items():
            held[name] = held.get(name, 0) + (low <= truth <= high)
            width[name] = width.get(name, 0.0) + high - low
    return [f"{held[name] / _RUNS:.3f} ({width[name] / width['t']:.2f})" for name in held]


def _ends(values: Any, by: Any) -> dict[str, Ends]:
    count, middle = len(values), values.mean()
    error = values.std(ddof=1) / math.sqrt(count)
    half = student_t_quantile(0.975, count - 1) * error
    drawn = values[by.integers(0, count, (_DRAWS, count))]
    means, spreads = drawn.mean(1), drawn.std(1, ddof=1)
    good = spreads > 1e-6 * error
    scores = (means[good] - middle) / (spreads[good] / math.sqrt(count))
    low, high = _tails(scores)
    skews = ((drawn - means[:, None]) ** 3).mean(1)[good] / drawn.std(1)[good] ** 3
    skew = ((values - middle) ** 3).mean() / values.std() ** 3
    straight = _tails(_straightened(scores, skews, count))
    return {
        "t": (middle - half, middle + half),
        "ours": (middle - max(half, high * error), middle + max(half, -low * error)),
        "hall": (
            middle - _bent(straight[1], skew, count) * error,
            middle - _bent(straight[0], skew, count) * error,
        ),
        "bca": _corrected(np.sort(means), middle, skew, count),
    }


def _tails(values: Any) -> Ends:
    found = np.sort(values)
    return found[int(0.025 * len(found))], found[int(0.975 * len(found))]


def _straightened(scores: Any, skew: Any, count: int) -> Any:
    """Hall's transformation of Student's statistic, which is all but free of skew."""
    root = math.sqrt(count)
    return scores + skew / (3 * root) * scores**2 + skew**2 / (27 * count) * scores**3 + skew / (6 * root)


def _bent(value: float, skew: float, count: int) -> float:
    """The transformation backwards."""
    lean = skew / math.sqrt(count)
    return value if abs(lean) < 1e-9 else 3 / lean * (np.cbrt(1 + lean * (value - lean / 6)) - 1)


def _corrected(means: Any, middle: float, skew: float, count: int) -> Ends:
    """Percentiles of the resampled means, for bias and for a spread that goes with the mean."""
    below = min(max(float((means < middle).mean()), 1 / _DRAWS), 1 - 1 / _DRAWS)
    bias, pull = normal_quantile(below), skew / (6 * math.sqrt(count))

    def end(z: float) -> float:
        share = normal_cdf(bias + (bias + z) / (1 - pull * (bias + z)))
        return means[min(_DRAWS - 1, max(0, int(share * _DRAWS)))]

    return end(-_Z), end(_Z)


if __name__ == "__main__":
    main()

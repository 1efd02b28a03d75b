"""Builds curves from metrics: smooths them, and downsamples them for the screen."""

import math
from dataclasses import dataclass
from itertools import accumulate

from posttrain.runtime.report.run_record import Points
from posttrain.runtime.report.step_sums import StepProgress, sums_at

# The points in the page, which zooming and exports show, and those of the line that is drawn at first.
MAX_POINTS = 2000
DRAWN_POINTS = 400
# No smoothing for fewer points than this, or for values so large that sums lose the small ones.
_MIN_SMOOTHED = 16
_HUGE = 1e9


@dataclass(frozen=True, kw_only=True)
class Curve:
    name: str
    # Steps and finite values; `smooth` has the same length, or is empty.
    x: tuple[float, ...]
    y: tuple[float, ...]
    smooth: tuple[float, ...]
    # Steps with a NaN or infinite value.
    nonfinite: tuple[float, ...]
    total: int
    # The running time in seconds and the tokens at each point; empty if they are not known.
    seconds: tuple[float, ...] = ()
    tokens: tuple[float, ...] = ()

    @property
    def constant(self) -> bool:
        return not self.nonfinite and min(self.y) == max(self.y)


def build_curve(
    name: str, points: Points, most: int = MAX_POINTS, progress: StepProgress | None = None
) -> Curve:
    """The curve of a metric with at most `most` points."""
    good = [(x, y) for x, y in points if math.isfinite(y)]
    nonfinite = tuple(x for x, y in points if not math.isfinite(y))
    y = [value for _, value in good]
    smooth = moving_average(y) if len(y) >= _MIN_SMOOTHED and max(map(abs, y)) < _HUGE else []
    indices = downsample(y, most)
    x = tuple(good[i][0] for i in indices)
    sums = progress or StepProgress()
    return Curve(
        name=name,
        x=x,
        y=tuple(y[i] for i in indices),
        smooth=tuple(smooth[i] for i in indices) if smooth else (),
        nonfinite=nonfinite[:MAX_POINTS],
        total=len(points),
        seconds=sums_at(sums.seconds, x),
        tokens=sums_at(sums.tokens, x),
    )


def moving_average(values: list[float]) -> list[float]:
    """The mean over a window of a twelfth of the curve around each value.

    At the start, where values fall fast, the window is shorter but symmetric. At the end it is
    truncated on the right, so that the last value alone does not set the end of the curve.
    """
    count = len(values)
    reach = max(2, count // 24)
    sums = list(accumulate(values, initial=0.0))
    found: list[float] = []
    for place in range(count):
        before = min(reach, place)
        after = min(before, count - 1 - place)
        found.append((sums[place + after + 1] - sums[place - before]) / (before + after + 1))
    return found


def downsample(values: list[float], most: int) -> list[int]:
    """Indices of the values to keep: both ends, and the minimum and maximum of each interval."""
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = max(1, (most - 2) // 2)
    indices = {0, count - 1}
    for number in range(stretches):
        places = range(number * count // stretches, (number + 1) * count // stretches)
        indices.add(min(places, key=values.__getitem__))
        indices.add(max(places, key=values.__getitem__))
    return sorted(indices)

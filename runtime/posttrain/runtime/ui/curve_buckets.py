"""A curve of any length in bounded memory: all points while it is short, then the extremes of intervals."""

import math

from posttrain.runtime.report.run_record import Points

# A chart has 400 points: a longer curve looks the same with these limits.
_MAX_EXACT = 2_000
_MAX_BUCKETS = 700
_MAX_NONFINITE = 400


class CurveBuckets:
    """Points of a metric by step. Past a limit, intervals of steps have their minimum, maximum and last."""

    def __init__(self) -> None:
        self._exact: dict[float, float] = {}
        # By number of the interval: step and value of the minimum, of the maximum, and of the last point.
        self._buckets: dict[int, list[float]] = {}
        self._origin, self._width = 0.0, 0.0
        self._nonfinite: list[float] = []

    def add(self, step: float, value: float) -> None:
        """Add a point. While the curve is short, a later value at the same step replaces the earlier one."""
        if self._width:
            self._add_to_bucket(step, value)
            return
        self._exact[step] = value
        if len(self._exact) > _MAX_EXACT:
            self._start_buckets()

    def points(self) -> Points:
        if not self._width:
            return tuple(sorted(self._exact.items()))
        found = dict.fromkeys(self._nonfinite, math.nan)
        for low_step, low, high_step, high, last_step, last in self._buckets.values():
            found[low_step], found[high_step], found[last_step] = low, high, last
        return tuple(sorted(found.items()))

    def truncated(self, step: float) -> "CurveBuckets":
        """The points up to a step, from which an attempt resumed."""
        found = CurveBuckets()
        for at, value in self.points():
            if at <= step:
                found.add(at, value)
        return found

    def _start_buckets(self) -> None:
        points, self._exact = self._exact, {}
        self._origin = min(points)
        self._width = (max(points) - self._origin) / (_MAX_BUCKETS // 2)
        for step, value in points.items():
            self._add_to_bucket(step, value)

    def _add_to_bucket(self, step: float, value: float) -> None:
        if not math.isfinite(value):
            if len(self._nonfinite) < _MAX_NONFINITE:
                self._nonfinite.append(step)
            return
        index = int((step - self._origin) // self._width)
        bucket = self._buckets.get(index)
        if bucket is None:
            self._buckets[index] = [step, value, step, value, step, value]
            while len(self._buckets) > _MAX_BUCKETS:
                self._widen()
            return
        if value < bucket[1]:
            bucket[0], bucket[1] = step, value
        if value > bucket[3]:
            bucket[2], bucket[3] = step, value
        if step >= bucket[4]:
            bucket[4], bucket[5] = step, value

    def _widen(self) -> None:
        """Double the intervals."""
        self._width *= 2
        narrow, self._buckets = self._buckets, {}
        for index, found in narrow.items():
            wide = self._buckets.setdefault(index // 2, found)
            if wide is not found:
                self._buckets[index // 2] = _merge(wide, found)


def _merge(one: list[float], other: list[float]) -> list[float]:
    low = one if one[1] <= other[1] else other
    high = one if one[3] >= other[3] else other
    last = one if one[4] > other[4] else other
    return [*low[:2], *high[2:4], *last[4:]]

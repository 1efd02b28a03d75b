"""The lines of a chart: one for a run, or one for each run of a comparison."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posttrain.runtime.report.curve_data import Curve
from posttrain.runtime.report.number_format import format_number, plural


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """The line of a run."""

    curve: Curve
    # Of a run in a comparison: its short and its full name, the class of its color, and its dash pattern.
    mark: str = ""
    name: str = ""
    color: str = ""
    dash: str = ""

    @property
    def columns(self) -> list[tuple[float, ...]]:
        """What is drawn, the main line last. The raw lines of several runs would cover each other."""
        curve = self.curve
        if not curve.smooth:
            return [curve.y]
        return [curve.smooth] if self.mark else [curve.y, curve.smooth]


def is_overlay(lines: Sequence[ChartLine]) -> bool:
    """Whether the chart is that of a comparison, even if only one run has the metric."""
    return bool(lines[0].mark)


def line_data(line: ChartLine) -> dict[str, object]:
    """What the script draws."""
    curve = line.curve
    return {
        "mark": line.mark,
        "name": line.name,
        "color": line.color,
        "dash": line.dash,
        "steps": curve.x,
        "values": [_round_digits(value) for value in curve.y],
        "smoothed": [_round_digits(value) for value in curve.smooth],
        "seconds": [round(value, 3) for value in curve.seconds],
        "tokens": curve.tokens,
        "nonfinite": curve.nonfinite,
        "total": curve.total,
    }


def _round_digits(value: float) -> float:
    """Single precision has seven digits."""
    return float(f"{value:.7g}")


def step_range(lines: Iterable[ChartLine]) -> tuple[float, float]:
    steps = [step for line in lines for step in (*line.curve.x, *line.curve.nonfinite)]
    low, high = min(steps), max(steps)
    return (low, high) if high > low else (low - 1, high + 1)


def describe_lines(lines: Sequence[ChartLine]) -> str:
    """A description of the chart as text."""
    if not is_overlay(lines):
        return _describe_curve(lines[0].curve)
    return f"at the end {', '.join(f'{one.mark} {format_number(_last_value(one.curve))}' for one in lines)}"


def _describe_curve(curve: Curve) -> str:
    low, high = min(curve.y), max(curve.y)
    if len(curve.y) == 1:
        text = f"{format_number(low)} at step {format_number(curve.x[0])}"
    elif low == high:
        text = f"{format_number(low)} at every step"
    else:
        best = curve.x[curve.y.index(low)], curve.x[curve.y.index(high)]
        text = f"min {format_number(low)} at step {best[0]:g}, max {format_number(high)} at step {best[1]:g}"
    text += f"; {plural(len(curve.nonfinite), 'non-finite value')}" if curve.nonfinite else ""
    shown = len(curve.x) + len(curve.nonfinite)
    return text + (f"; {shown:,} of {curve.total:,} values shown" if shown < curve.total else "")


def _last_value(curve: Curve) -> float:
    """The value at the last step: NaN for a run that ended without a finite one."""
    is_lost = curve.nonfinite and (not curve.x or curve.nonfinite[-1] > curve.x[-1])
    return math.nan if is_lost else curve.y[-1]

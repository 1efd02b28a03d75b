"""Draws a metric of several runs on common axes: one line for each run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.axis_scale import Scale, count_text, padded_range, tick_text, ticks
from posttrain.runtime.report.curve_data import Curve
from posttrain.runtime.report.line_chart import has_gap
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import format_number

WIDTH, HEIGHT = 360, 184
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 350.0, 10.0, 158.0
# Runs after the last color use the colors again, with dashed lines.
_COLORS = 6
# Of non-finite values, for each run.
_MAX_CROSSES = 12
_DASHES = ("", "5 3", "1.5 3", "8 3 1.5 3")


@dataclass(frozen=True)
class RunCurve:
    """The curve of a run. Its place in the comparison determines the color."""

    place: int
    mark: str
    curve: Curve


def color_class(place: int) -> str:
    return f"run-{place % _COLORS}"


def dash_pattern(place: int) -> str | None:
    return _DASHES[place // _COLORS % len(_DASHES)] or None


def line_key(place: int) -> Markup:
    """A piece of the line of a run, for legends."""
    line = tag("line", x1=1, x2=21, y1=5, y2=5, class_="line", stroke_dasharray=dash_pattern(place))
    return tag("svg", line, class_=f"key {color_class(place)}", width=22, height=10, aria_hidden="true")


def draw_overlay(curves: Sequence[RunCurve], title: str, index: int) -> Markup:
    """The chart with a text line below it; the script replaces that line with the values at the cursor."""
    description = _describe(curves)
    across = Scale(*_step_range(curves), _LEFT, _RIGHT)
    values = [value for one in curves for value in (*one.curve.y, *one.curve.smooth)]
    up = Scale(*padded_range(values), _BOTTOM, _TOP)
    drawing = tag(
        "svg",
        _grid(across, up),
        [_draw_line(one, across, up) for one in curves],
        tag("g", tag("line", y1=_TOP, y2=_BOTTOM), class_="cursor"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label=f"{title} by step: {description}",
        data_overlay=index,
        data_x=f"{across.low!r} {across.high!r} {_LEFT} {_RIGHT}",
    )
    head = tag("figcaption", tag("span", title, class_="cut", title=title))
    readout = tag("p", description, class_="readout", aria_live="polite")
    return tag("figure", head, drawing, readout, class_="chart overlay")


def overlay_json(curves: Sequence[RunCurve]) -> list[dict[str, Any]]:
    """The data that the script shows."""
    return [
        {"mark": one.mark, "x": list(one.curve.x), "y": [float(f"{value:.5g}") for value in one.curve.y]}
        for one in curves
    ]


def _describe(curves: Sequence[RunCurve]) -> str:
    last = (f"{one.mark} {format_number(_last_value(one.curve))}" for one in curves)
    return f"at the end {', '.join(last)}"


def _last_value(curve: Curve) -> float:
    """The value at the last step: NaN for a run that ended without a finite one."""
    is_lost = curve.nonfinite and (not curve.x or curve.nonfinite[-1] > curve.x[-1])
    return math.nan if is_lost else curve.y[-1]


def _step_range(curves: Sequence[RunCurve]) -> tuple[float, float]:
    steps = [step for one in curves for step in (*one.curve.x, *one.curve.nonfinite)]
    low, high = min(steps), max(steps)
    return (low, high) if high > low else (low - 1, high + 1)


def _grid(across: Scale, up: Scale) -> list[Markup]:
    drawn: list[Markup] = []
    for value in ticks(up.low, up.high, 4):
        y = up(value)
        drawn.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", tick_text(value), x=_LEFT - 7, y=y + 3.5, text_anchor="end", class_="tick"))
    for value in ticks(across.low, across.high, 5, whole=True):
        x = across(value)
        drawn.append(tag("line", x1=x, x2=x, y1=_BOTTOM, y2=_BOTTOM + 4, class_="axis"))
        drawn.append(tag("text", count_text(value), x=x, y=_BOTTOM + 17, text_anchor="middle", class_="tick"))
    drawn.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM, class_="axis"))
    return drawn


def _draw_line(one: RunCurve, across: Scale, up: Scale) -> Markup:
    """The smoothed line if there is one: the raw lines of several runs cover each other. Crosses at the top
    mark the first non-finite values, at which the line has gaps."""
    curve = one.curve
    places = [(across(x), up(y)) for x, y in zip(curve.x, curve.smooth or curve.y, strict=True)]
    line = tag("path", d=_path(curve, places), class_="line", stroke_dasharray=dash_pattern(one.place))
    dots = [tag("circle", cx=x, cy=y, r=2.5, class_="dot") for x, y in places] if len(places) == 1 else None
    crosses = [
        tag("path", d=f"M{across(step) - 3:.1f} {_TOP}l6 6m-6 0l6 -6", class_="lost")
        for step in curve.nonfinite[:_MAX_CROSSES]
    ]
    return tag("g", line, dots, crosses, class_=color_class(one.place))


def _path(curve: Curve, places: Sequence[tuple[float, float]]) -> str:
    parts: list[str] = []
    for index, (x, y) in enumerate(places):
        is_start = index == 0 or has_gap(curve.x[index - 1], curve.x[index], curve.nonfinite)
        parts.append(f"{'M' if is_start else 'L'}{x:.1f} {y:.1f}{'h0' if is_start else ''}")
    return "".join(parts)

"""Draws a curve: axes, values, the smoothed line, and markers for checkpoints and resumes."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.axis_scale import Scale, padded_range, tick_text, ticks
from posttrain.runtime.report.curve_data import Curve
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import format_number, plural

WIDTH, HEIGHT = 360, 184
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 350.0, 10.0, 158.0
_MAX_DOTS = 12


@dataclass(frozen=True, kw_only=True)
class StepMarkers:
    """Steps with a checkpoint, and steps from which training resumed."""

    checkpoints: tuple[int, ...] = ()
    resumed: tuple[int, ...] = ()


def draw_chart(curve: Curve, title: str, marks: StepMarkers, index: int) -> Markup:
    """The chart with a text line below it; the script replaces that line with the value at the cursor."""
    description = _describe(curve)
    across = Scale(*_step_range(curve), _LEFT, _RIGHT)
    up = Scale(*padded_range([*curve.y, *curve.smooth]), _BOTTOM, _TOP)
    drawing = tag(
        "svg",
        _grid(across, up),
        _draw_markers(across, marks),
        _draw_lines(curve, across, up),
        _draw_nonfinite(curve, across),
        tag("g", tag("line", y1=_TOP, y2=_BOTTOM), tag("circle", r=3.5), class_="cursor"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label=f"{title} by step: {description}",
        data_chart=index,
        data_x=f"{across.low!r} {across.high!r} {_LEFT} {_RIGHT}",
        data_y=f"{up.low!r} {up.high!r} {_BOTTOM} {_TOP}",
    )
    head = tag(
        "figcaption", tag("span", title, class_="cut", title=title), tag("b", format_number(curve.y[-1]))
    )
    readout = tag("p", description, class_="readout", aria_live="polite")
    return tag("figure", head, drawing, readout, class_="chart")


def curve_json(curve: Curve) -> dict[str, list[float]]:
    """The data that the script shows: steps, values, and smoothed values."""
    return {
        "x": list(curve.x),
        "y": [_round_digits(value) for value in curve.y],
        "s": [_round_digits(value) for value in curve.smooth],
    }


def _round_digits(value: float) -> float:
    return float(f"{value:.5g}")


def _step_range(curve: Curve) -> tuple[float, float]:
    steps = [*curve.x, *curve.nonfinite]
    low, high = min(steps), max(steps)
    return (low, high) if high > low else (low - 1, high + 1)


def _describe(curve: Curve) -> str:
    """A description of the curve as text."""
    low, high = min(curve.y), max(curve.y)
    if len(curve.y) == 1:
        text = f"{format_number(low)} at step {format_number(curve.x[0])}"
    elif low == high:
        text = f"{format_number(low)} at every step"
    else:
        best = curve.x[curve.y.index(low)], curve.x[curve.y.index(high)]
        text = f"min {format_number(low)} at step {best[0]:g}, max {format_number(high)} at step {best[1]:g}"
    return text + (f"; {plural(len(curve.nonfinite), 'non-finite value')}" if curve.nonfinite else "")


def _grid(across: Scale, up: Scale) -> list[Markup]:
    drawn: list[Markup] = []
    for value in ticks(up.low, up.high, 4):
        y = up(value)
        drawn.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", tick_text(value), x=_LEFT - 7, y=y + 3.5, text_anchor="end", class_="tick"))
    for value in ticks(across.low, across.high, 5):
        x = across(value)
        drawn.append(tag("line", x1=x, x2=x, y1=_BOTTOM, y2=_BOTTOM + 4, class_="axis"))
        drawn.append(tag("text", f"{value:g}", x=x, y=_BOTTOM + 17, text_anchor="middle", class_="tick"))
    drawn.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM, class_="axis"))
    return drawn


def _draw_markers(across: Scale, marks: StepMarkers) -> list[Markup]:
    """Checkpoints as triangles on the axis, resumes as dashed lines."""
    inside = [s for s in marks.checkpoints if across.low <= s <= across.high]
    drawn = [
        tag(
            "path",
            tag("title", f"checkpoint at step {step}"),
            d=f"M{across(step):.1f} {_BOTTOM}l-3.5 -5h7z",
            class_="checkpoint",
        )
        for step in inside
    ]
    for step in marks.resumed:
        if across.low <= step <= across.high:
            x, words = across(step), f"resumed from step {step}"
            drawn.append(tag("line", tag("title", words), x1=x, x2=x, y1=_TOP, y2=_BOTTOM, class_="resumed"))
    return drawn


def _draw_lines(curve: Curve, across: Scale, up: Scale) -> list[Markup]:
    places = [(across(x), up(y)) for x, y in zip(curve.x, curve.y, strict=True)]
    drawn = [tag("path", d=_path(places, curve), class_="raw" if curve.smooth else "line")]
    if curve.smooth:
        smooth = [(across(x), up(y)) for x, y in zip(curve.x, curve.smooth, strict=True)]
        drawn.append(tag("path", d=_path(smooth, curve), class_="line"))
    elif len(places) <= _MAX_DOTS:
        drawn += [tag("circle", cx=x, cy=y, r=2.5, class_="dot") for x, y in places]
    return drawn


def _path(places: Sequence[tuple[float, float]], curve: Curve) -> str:
    """A line with a gap at each non-finite value."""
    parts: list[str] = []
    before = None
    for (x, y), step in zip(places, curve.x, strict=True):
        broken = before is None or _has_gap(before, step, curve.nonfinite)
        parts.append(f"M{x:.1f} {y:.1f}h0" if broken else f"L{x:.1f} {y:.1f}")
        before = step
    return "".join(parts)


def _has_gap(low: float, high: float, nonfinite: Sequence[float]) -> bool:
    index = bisect_left(nonfinite, low)
    return index < len(nonfinite) and nonfinite[index] < high


def _draw_nonfinite(curve: Curve, across: Scale) -> list[Markup]:
    """A cross at the top for each non-finite value, up to 40."""
    return [
        tag(
            "path",
            tag("title", f"non-finite value at step {step:g}"),
            d=f"M{across(step) - 3:.1f} {_TOP}l6 6m-6 0l6 -6",
            class_="lost",
        )
        for step in curve.nonfinite[:40]
    ]


def curves_json(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [dict(curve_json(curve)) for curve in curves]

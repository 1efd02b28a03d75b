"""Draws a curve: axes, values, the smoothed line, and markers for checkpoints, evaluations and resumes.

The figure has its data: the script draws it again, zoomed, with another axis, or smoothed otherwise.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.runtime.report.axis_scale import Scale, count_text, padded_range, tick_text, ticks
from posttrain.runtime.report.curve_data import DRAWN_POINTS, Curve, downsample
from posttrain.runtime.report.curve_table import curve_table
from posttrain.runtime.report.markup import Markup, script_json, tag
from posttrain.runtime.report.number_format import format_number, plural

WIDTH, HEIGHT = 360, 184
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 350.0, 10.0, 158.0
_MAX_DOTS = 12
# Room around the axes for dots and strokes at their ends.
_BLEED = 3.0


@dataclass(frozen=True, kw_only=True)
class StepMarkers:
    """Steps with a checkpoint or an evaluation, and steps from which training resumed."""

    checkpoints: tuple[int, ...] = ()
    resumed: tuple[int, ...] = ()
    evals: tuple[int, ...] = ()


def draw_chart(curve: Curve, title: str, marks: StepMarkers) -> Markup:
    """The chart with a text line and a table below it, and the data for the script."""
    description = _describe(curve)
    across = Scale(*_step_range(curve), _LEFT, _RIGHT)
    up = Scale(*padded_range([*curve.y, *curve.smooth]), _BOTTOM, _TOP)
    inner = [_draw_markers(across, marks), _draw_lines(curve, across, up), _draw_nonfinite(curve, across)]
    drawing = tag(
        "svg",
        tag("g", _grid(across, up), _clipped(inner), class_="drawn"),
        tag("g", tag("line", y1=_TOP, y2=_BOTTOM), tag("circle", r=3.5), class_="cursor"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label=f"{title} by step: {description}",
    )
    head = tag(
        "figcaption", tag("span", title, class_="cut", title=title), tag("b", format_number(curve.y[-1]))
    )
    return tag(
        "figure",
        head,
        drawing,
        tag("p", description, class_="readout"),
        curve_table(curve, title),
        tag("script", script_json(_chart_data(curve, marks)), type="application/json"),
        class_="chart",
        data_metric=curve.name,
        data_positive=min(curve.y) > 0,
    )


def _chart_data(curve: Curve, marks: StepMarkers) -> dict[str, object]:
    """What the script draws."""
    return {
        "steps": curve.x,
        "values": [_round_digits(value) for value in curve.y],
        "smoothed": [_round_digits(value) for value in curve.smooth],
        "seconds": [round(value, 3) for value in curve.seconds],
        "tokens": curve.tokens,
        "nonfinite": curve.nonfinite,
        "total": curve.total,
        "checkpoints": marks.checkpoints,
        "evals": marks.evals,
        "resumed": marks.resumed,
    }


def _round_digits(value: float) -> float:
    """Single precision has seven digits."""
    return float(f"{value:.7g}")


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
    text += f"; {plural(len(curve.nonfinite), 'non-finite value')}" if curve.nonfinite else ""
    shown = len(curve.x) + len(curve.nonfinite)
    return text + (f"; {shown:,} of {curve.total:,} values shown" if shown < curve.total else "")


def _clipped(inner: list[list[Markup]]) -> Markup:
    """Content inside the axes: a nested drawing clips what leaves it."""
    x, y, width, height = _LEFT - _BLEED, _TOP - _BLEED, _RIGHT - _LEFT + 2 * _BLEED, _BOTTOM - _TOP + _BLEED
    box = f"{x:g} {y:g} {width:g} {height:g}"
    return tag("svg", inner, x=x, y=y, width=width, height=height, viewBox=box, aria_hidden="true")


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


def _draw_markers(across: Scale, marks: StepMarkers) -> list[Markup]:
    """Checkpoints as triangles on the axis, evaluations as ticks, resumes as dashed lines."""
    drawn = [
        tag("path", tag("title", f"{words} at step {step}"), d=path.format(across(step)), class_=kind)
        for kind, words, path, steps in (
            ("evaluated", "evaluation", f"M{{:.1f}} {_BOTTOM - 11}v5", marks.evals),
            ("checkpoint", "checkpoint", f"M{{:.1f}} {_BOTTOM}l-3.5 -5h7z", marks.checkpoints),
        )
        for step in steps
        if across.low <= step <= across.high
    ]
    for step in marks.resumed:
        if across.low <= step <= across.high:
            x, words = across(step), f"resumed from step {step}"
            drawn.append(tag("line", tag("title", words), x1=x, x2=x, y1=_TOP, y2=_BOTTOM, class_="resumed"))
    return drawn


def _draw_lines(curve: Curve, across: Scale, up: Scale) -> list[Markup]:
    places = downsample(list(curve.y), DRAWN_POINTS)
    drawn = [
        tag("path", d=_path(curve, curve.y, places, across, up), class_="raw" if curve.smooth else "line")
    ]
    if curve.smooth:
        drawn.append(tag("path", d=_path(curve, curve.smooth, places, across, up), class_="line"))
    elif len(places) <= _MAX_DOTS:
        drawn += [
            tag("circle", cx=across(curve.x[i]), cy=up(curve.y[i]), r=2.5, class_="dot") for i in places
        ]
    return drawn


def _path(curve: Curve, values: Sequence[float], places: Sequence[int], across: Scale, up: Scale) -> str:
    """A line with a gap at each non-finite value."""
    parts: list[str] = []
    before = None
    for place in places:
        step = curve.x[place]
        x, y = across(step), up(values[place])
        broken = before is None or has_gap(before, step, curve.nonfinite)
        parts.append(f"M{x:.1f} {y:.1f}h0" if broken else f"L{x:.1f} {y:.1f}")
        before = step
    return "".join(parts)


def has_gap(low: float, high: float, nonfinite: Sequence[float]) -> bool:
    """Whether there is a non-finite value between two steps."""
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

"""Draws a chart: axes, a line for each run, and markers for checkpoints, evaluations and resumes.

The figure has its data: the script draws it again, zoomed, with another axis, or smoothed otherwise.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.runtime.report.axis_scale import Scale, count_text, padded_range, tick_text, ticks
from posttrain.runtime.report.chart_lines import ChartLine, describe_lines, is_overlay, line_data, step_range
from posttrain.runtime.report.curve_data import DRAWN_POINTS, Curve, downsample
from posttrain.runtime.report.curve_table import curve_table
from posttrain.runtime.report.markup import Markup, script_json, tag
from posttrain.runtime.report.number_format import format_number

WIDTH, HEIGHT = 360, 184
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 350.0, 10.0, 158.0
_MAX_DOTS = 12
# Of non-finite values: shared by the lines of a chart, and the least of a line.
_MAX_CROSSES, _MIN_CROSSES = 40, 4
# Room around the axes for dots and strokes at their ends.
_BLEED = 3.0


@dataclass(frozen=True, kw_only=True)
class StepMarkers:
    """Steps with a checkpoint or an evaluation, and steps from which training resumed."""

    checkpoints: tuple[int, ...] = ()
    resumed: tuple[int, ...] = ()
    evals: tuple[int, ...] = ()


def draw_chart(lines: Sequence[ChartLine], title: str, marks: StepMarkers) -> Markup:
    """The chart with a text line and a table below it, and the data for the script."""
    description = describe_lines(lines)
    across = Scale(*step_range(lines), _LEFT, _RIGHT)
    up = Scale(*padded_range(v for line in lines for column in line.columns for v in column), _BOTTOM, _TOP)
    crosses = max(_MIN_CROSSES, _MAX_CROSSES // len(lines))
    inner = [_draw_markers(across, marks), [_draw_line(line, across, up, crosses) for line in lines]]
    drawing = tag(
        "svg",
        tag("g", _grid(across, up), _clipped(inner), class_="drawn"),
        tag(
            "g",
            tag("line", y1=_TOP, y2=_BOTTOM),
            [tag("circle", r=3.5, class_=line.color or None) for line in lines],
            class_="cursor",
        ),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label=f"{title} by step: {description}",
    )
    overlay = is_overlay(lines)
    last = None if overlay else tag("b", format_number(lines[0].curve.y[-1]))
    return tag(
        "figure",
        tag("figcaption", tag("span", title, class_="cut", title=title), last),
        drawing,
        tag("p", description, class_="readout"),
        curve_table(lines, title),
        tag("script", script_json(_chart_data(lines, marks)), type="application/json"),
        class_="chart overlay" if overlay else "chart",
        data_metric=lines[0].curve.name,
        data_positive=all(value > 0 for line in lines for value in line.curve.y),
    )


def _chart_data(lines: Sequence[ChartLine], marks: StepMarkers) -> dict[str, object]:
    return {
        "lines": [line_data(line) for line in lines],
        "checkpoints": marks.checkpoints,
        "evals": marks.evals,
        "resumed": marks.resumed,
    }


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


def _draw_line(line: ChartLine, across: Scale, up: Scale, crosses: int) -> Markup:
    curve, columns, dash = line.curve, line.columns, line.dash or None
    places = downsample(list(curve.y), DRAWN_POINTS)
    drawn = [
        tag("path", d=_path(curve, column, places, across, up), class_=name, stroke_dasharray=dash)
        for name, column in zip(("raw", "line")[-len(columns) :], columns, strict=True)
    ]
    if not curve.smooth and len(places) <= _MAX_DOTS:
        drawn += [
            tag("circle", cx=across(curve.x[i]), cy=up(curve.y[i]), r=2.5, class_="dot") for i in places
        ]
    return tag("g", drawn, _draw_nonfinite(line, across, crosses), class_=line.color or None)


def _path(curve: Curve, values: Sequence[float], places: Sequence[int], across: Scale, up: Scale) -> str:
    """A line with a gap at each non-finite value."""
    parts: list[str] = []
    before = None
    for place in places:
        step = curve.x[place]
        x, y = across(step), up(values[place])
        broken = before is None or _has_gap(before, step, curve.nonfinite)
        parts.append(f"M{x:.1f} {y:.1f}h0" if broken else f"L{x:.1f} {y:.1f}")
        before = step
    return "".join(parts)


def _has_gap(low: float, high: float, nonfinite: Sequence[float]) -> bool:
    """Whether there is a non-finite value between two steps."""
    index = bisect_left(nonfinite, low)
    return index < len(nonfinite) and nonfinite[index] < high


def _draw_nonfinite(line: ChartLine, across: Scale, most: int) -> list[Markup]:
    """A cross at the top for each of the first non-finite values."""
    run = f"{line.mark}: " if line.mark else ""
    return [
        tag(
            "path",
            tag("title", f"{run}non-finite value at step {step:g}"),
            d=f"M{across(step) - 3:.1f} {_TOP:g}l6 6m-6 0l6 -6",
            class_="lost",
        )
        for step in line.curve.nonfinite[:most]
    ]

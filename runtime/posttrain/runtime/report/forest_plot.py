"""Draws one metric of several models as a forest plot: one interval per line, on one axis."""

from collections.abc import Sequence

from posttrain.runtime.report.axis_scale import Scale, tick_text, ticks
from posttrain.runtime.report.line_chart import WIDTH
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.metric_rows import EvalMetric, metric_axis
from posttrain.runtime.report.number_format import format_decimals, plural
from posttrain.runtime.report.plan_graph import ellipsize

_LEFT, _RIGHT, _TOP, _LINE, _BELOW = 128.0, 350.0, 6.0, 24.0, 24.0
_MAX_LABEL = 16
# More lines than this are not drawn.
_MAX_LINES = 40


def draw_forest_plot(found: Sequence[EvalMetric]) -> Markup:
    """The models in recipe order, with a text summary below."""
    measured = [metric for metric in found if metric.values]
    shown = measured[:_MAX_LINES]
    name = found[0].name
    if not shown:
        return tag("p", f"{name} has no intervals to draw.", class_="soft")
    bottom = _TOP + _LINE * len(shown)
    across = Scale(*metric_axis(shown[0], measured), _LEFT, _RIGHT)
    lines = [_line(metric, across, _TOP + _LINE * (n + 0.5)) for n, metric in enumerate(shown)]
    drawing = tag(
        "svg",
        _grid(across, bottom),
        lines,
        viewBox=f"0 0 {WIDTH} {bottom + _BELOW:.0f}",
        role="img",
        aria_label=f"{name} of {plural(len(shown), 'model')}: {'; '.join(_describe(m) for m in shown)}",
    )
    left = f"; {len(measured) - len(shown):,} more are in the table" if len(measured) > len(shown) else ""
    best = max(measured, key=lambda metric: metric.values or ())
    words = f"highest: {best.model} with {format_decimals(best.data.get('value'))}{left}"
    head = tag("figcaption", tag("span", name, class_="cut", title=name))
    return tag("figure", head, drawing, tag("p", words, class_="readout"), class_="chart")


def _describe(metric: EvalMetric) -> str:
    value, low, high = metric.values or (None, None, None)
    return (
        f"{metric.model} {format_decimals(value)}, interval {format_decimals(low)} to {format_decimals(high)}"
    )


def _line(metric: EvalMetric, across: Scale, y: float) -> Markup:
    value, low, high = (across(one) for one in metric.values or ())
    return tag(
        "g",
        tag("title", _describe(metric)),
        tag(
            "text",
            ellipsize(metric.model, _MAX_LABEL),
            x=_LEFT - 10,
            y=y + 4,
            text_anchor="end",
            class_="tick",
        ),
        tag("line", x1=low, x2=high, y1=y, y2=y, class_="interval"),
        tag("circle", cx=value, cy=y, r=4, class_="estimate"),
    )


def _grid(across: Scale, bottom: float) -> list[Markup]:
    drawn: list[Markup] = []
    for value in ticks(across.low, across.high, 4):
        x = across(value)
        anchor = "end" if x > _RIGHT - 8 else "middle"
        drawn.append(tag("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="grid"))
        drawn.append(tag("text", tick_text(value), x=x, y=bottom + 16, text_anchor=anchor, class_="tick"))
    drawn.append(tag("line", x1=_LEFT, x2=_RIGHT, y1=bottom, y2=bottom, class_="axis"))
    return drawn

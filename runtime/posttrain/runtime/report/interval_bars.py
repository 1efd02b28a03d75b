"""Draws confidence intervals: a small bar next to a metric, a large one with a gate's threshold."""

from posttrain.runtime.report.axis_scale import Scale, padded_range, tick_text, ticks
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import finite_or_none, format_decimals


def percent_position(scale: Scale, value: float) -> str:
    """The position of a value in percent of the width, so that text next to it keeps its size."""
    return f"{min(100.0, max(0.0, scale(value))):.2f}%"


def interval_bar(
    value: float, low: float, high: float, ends: tuple[float, float], *, zero: bool = False
) -> Markup:
    """A value and its interval on an axis; `zero` adds a mark at zero, for differences."""
    scale = Scale(*ends, 0.0, 100.0)
    mark = percent_position(scale, 0.0)
    return tag(
        "svg",
        tag("line", x1=mark, x2=mark, y1=0, y2=16, class_="axis") if zero else None,
        tag("line", x1="0%", x2="100%", y1=8, y2=8, class_="axis"),
        tag(
            "line",
            x1=percent_position(scale, low),
            x2=percent_position(scale, high),
            y1=8,
            y2=8,
            class_="interval",
        ),
        tag("circle", cx=percent_position(scale, value), cy=8, r=4, class_="estimate"),
        class_="small",
        width="100%",
        height=16,
        role="img",
        aria_label=(
            f"{format_decimals(value)}, interval {format_decimals(low)} to {format_decimals(high)}, on a"
            f" scale from {tick_text(ends[0])} to {tick_text(ends[1])}"
        ),
    )


def threshold_bar(value: float, low: float, high: float, threshold: float, kind: str, verdict: str) -> Markup:
    """An estimate with its interval, the threshold, and the side that satisfies the condition."""
    scale = Scale(*_axis_range(value, low, high, threshold, kind), 0.0, 100.0)
    mark = percent_position(scale, threshold)
    below = kind == "at_most"
    width = scale(threshold) if below else 100.0 - scale(threshold)
    return tag(
        "svg",
        tag("rect", x="0%" if below else mark, y=22, width=f"{width:.2f}%", height=32, class_="holds"),
        _axis(scale),
        tag("line", x1=mark, x2=mark, y1=18, y2=58, class_="threshold"),
        _threshold_text(scale, threshold, kind),
        _interval(scale, value, low, high),
        class_=f"against s-{verdict}",
        width="100%",
        height=80,
        role="img",
        aria_label=(
            f"{verdict}: estimate {format_decimals(value)}, interval {format_decimals(low)} to"
            f" {format_decimals(high)}; required: {_threshold_words(kind)} {tick_text(threshold)}"
        ),
    )


def _axis_range(value: float, low: float, high: float, threshold: float, kind: str) -> tuple[float, float]:
    shown = [value, low, high, threshold]
    if kind != "better_than" and min(shown) >= 0 and max(shown) <= 1:
        return 0.0, 1.0
    if kind == "better_than":
        shown.append(0.0)
    ends = padded_range(shown, 0.25)
    return ends if max(shown) > min(shown) else (value - 0.1, value + 0.1)


def _axis(scale: Scale) -> Markup:
    drawn = [tag("line", x1="0%", x2="100%", y1=38, y2=38, class_="axis")]
    for value in ticks(scale.low, scale.high, 5):
        x = percent_position(scale, value)
        share = scale(value)
        anchor = "start" if share < 3 else "end" if share > 97 else "middle"
        drawn.append(tag("line", x1=x, x2=x, y1=54, y2=58, class_="axis"))
        drawn.append(tag("text", tick_text(value), x=x, y=72, text_anchor=anchor, class_="tick"))
    return Markup("".join(drawn))


def _threshold_text(scale: Scale, threshold: float, kind: str) -> Markup:
    share = scale(threshold)
    anchor = "start" if share < 15 else "end" if share > 85 else "middle"
    words = f"{_threshold_words(kind)} {tick_text(threshold)}"
    return tag(
        "text", words, x=percent_position(scale, threshold), y=13, text_anchor=anchor, class_="threshold-text"
    )


def _threshold_words(kind: str) -> str:
    return {"at_least": "at least", "at_most": "at most", "better_than": "above"}.get(kind, "threshold")


def _interval(scale: Scale, value: float, low: float, high: float) -> Markup:
    ends = [percent_position(scale, low), percent_position(scale, high)]
    caps = [tag("line", x1=end, x2=end, y1=31, y2=45, class_="interval cap") for end in ends]
    bar = tag("line", x1=ends[0], x2=ends[1], y1=38, y2=38, class_="interval")
    return Markup(
        bar + "".join(caps) + tag("circle", cx=percent_position(scale, value), cy=38, r=6, class_="estimate")
    )


def finite_values(*values: object) -> tuple[float, ...] | None:
    """All values as finite floats; None when one of them is not finite."""
    found = [finite_or_none(value) for value in values]
    return tuple(n for n in found if n is not None) if None not in found else None

"""How the line of a run looks in the charts of a comparison: its color and its dash pattern."""

from posttrain.runtime.report.markup import Markup, tag

# Runs after the last color use the colors again, with dashed lines.
_COLORS = 6
_DASHES = ("", "5 3", "1.5 3", "8 3 1.5 3")


def color_class(place: int) -> str:
    return f"run-{place % _COLORS}"


def dash_pattern(place: int) -> str:
    """The pattern of a run by its place in the comparison; empty for a solid line."""
    return _DASHES[place // _COLORS % len(_DASHES)]


def line_key(place: int) -> Markup:
    """A piece of the line of a run, for legends."""
    pattern = dash_pattern(place) or None
    line = tag("line", x1=1, x2=21, y1=5, y2=5, class_="line", stroke_dasharray=pattern)
    return tag("svg", line, class_=f"key {color_class(place)}", width=22, height=10, aria_hidden="true")

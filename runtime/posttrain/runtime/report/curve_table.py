"""The values of a curve as a table, which needs no sight of the drawing."""

from posttrain.runtime.report.curve_data import Curve
from posttrain.runtime.report.markup import Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import format_count, format_duration, format_number, plural

# The script replaces the rows by all points of the page.
_ROWS = 12


def curve_table(curve: Curve, title: str) -> Markup:
    """A folded table with evenly spaced points, the first and the last included."""
    count = len(curve.x)
    shown = sorted({round(n * (count - 1) / (_ROWS - 1)) for n in range(_ROWS)})
    heads = ["Step", "Value"]
    heads += (["Smoothed"] if curve.smooth else []) + (["Tokens"] if curve.tokens else [])
    heads += ["Time"] if curve.seconds else []
    table = tag(
        "table",
        tag("caption", f"{len(shown):,} of {plural(curve.total, 'value')}", class_="soft"),
        tag("thead", tag("tr", [tag("th", words, scope="col", class_="number") for words in heads])),
        tag("tbody", [_row(curve, place) for place in shown]),
    )
    summary = tag("summary", "Table", tag("span", f" of {title}", class_="unseen"))
    return tag("details", summary, scroll_frame(f"Values of {title}", table, tall=True), class_="values")


def _row(curve: Curve, place: int) -> Markup:
    cells = [format_number(curve.y[place])]
    cells += [format_number(curve.smooth[place])] if curve.smooth else []
    cells += [format_count(curve.tokens[place])] if curve.tokens else []
    cells += [format_duration(curve.seconds[place])] if curve.seconds else []
    return tag(
        "tr",
        tag("th", f"{curve.x[place]:g}", scope="row", class_="number"),
        [tag("td", text, class_="number") for text in cells],
    )

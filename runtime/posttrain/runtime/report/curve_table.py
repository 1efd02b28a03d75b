"""The values of a chart as a table, which needs no sight of the drawing."""

from collections.abc import Sequence

from posttrain.runtime.report.chart_lines import ChartLine, is_overlay
from posttrain.runtime.report.curve_data import Curve
from posttrain.runtime.report.markup import Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    format_count,
    format_duration,
    format_number,
    plural,
)

# The script replaces the rows by all points of the page.
_ROWS = 12


def curve_table(lines: Sequence[ChartLine], title: str) -> Markup:
    """A folded table with evenly spaced points, the first and the last included."""
    caption, heads, rows = _run_rows(lines) if is_overlay(lines) else _point_rows(lines[0].curve)
    table = tag(
        "table",
        tag("caption", caption, class_="soft"),
        tag("thead", tag("tr", [tag("th", words, scope="col", class_="number") for words in heads])),
        tag("tbody", rows),
    )
    summary = tag("summary", "Table", tag("span", f" of {title}", class_="unseen"))
    return tag("details", summary, scroll_frame(f"Values of {title}", table, tall=True), class_="values")


def _evenly(count: int) -> list[int]:
    return sorted({round(n * (count - 1) / (_ROWS - 1)) for n in range(_ROWS)})


def _point_rows(curve: Curve) -> tuple[str, list[str], list[Markup]]:
    """The points of a run, with all that is known of each."""
    places = _evenly(len(curve.x))
    heads = ["Step", "Value"]
    heads += (["Smoothed"] if curve.smooth else []) + (["Tokens"] if curve.tokens else [])
    heads += ["Time"] if curve.seconds else []
    caption = f"{len(places):,} of {plural(curve.total, 'value')}"
    return caption, heads, [_row(curve.x[place], _point_cells(curve, place)) for place in places]


def _point_cells(curve: Curve, place: int) -> list[str]:
    cells = [format_number(curve.y[place])]
    cells += [format_number(curve.smooth[place])] if curve.smooth else []
    cells += [format_count(curve.tokens[place])] if curve.tokens else []
    return cells + ([format_duration(curve.seconds[place])] if curve.seconds else [])


def _run_rows(lines: Sequence[ChartLine]) -> tuple[str, list[str], list[Markup]]:
    """The value of each run at the steps of all of them."""
    columns = [dict(zip(line.curve.x, line.curve.y, strict=True)) for line in lines]
    steps = sorted({step for column in columns for step in column})
    shown = [steps[place] for place in _evenly(len(steps))]
    rows = [
        _row(step, [format_number(column[step]) if step in column else DASH for column in columns])
        for step in shown
    ]
    caption = f"{len(shown):,} of {plural(len(steps), 'step')}"
    return caption, ["Step", *(line.mark for line in lines)], rows


def _row(step: float, cells: Sequence[str]) -> Markup:
    return tag(
        "tr",
        tag("th", f"{step:g}", scope="row", class_="number"),
        [tag("td", text, class_="number") for text in cells],
    )

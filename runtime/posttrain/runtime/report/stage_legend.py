"""The legend of a stage's curves: its markers with their numbers, and how the lines are smoothed."""

from collections.abc import Iterable

from posttrain.runtime.report.curve_data import Curve
from posttrain.runtime.report.line_chart import StepMarkers
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import plural

_MEAN = "the mean of the values around each step, in a window of a twelfth of the curve that is"
SMOOTHING = f"Bold line: {_MEAN} shorter at both ends. Faint line: the values."
OVERLAY_SMOOTHING = f"Lines: {_MEAN} shorter at both ends."


def stage_legend(marks: StepMarkers, curves: Iterable[Curve], smoothing: str = SMOOTHING) -> Markup | None:
    """None when the curves have neither markers nor smoothing."""
    found = list(curves)
    symbols = [
        ("checkpoint", tag("path", d="M7 12l-3.5 -5h7z", class_="checkpoint"), len(marks.checkpoints)),
        ("evaluation", tag("path", d="M7 4v7", class_="evaluated"), len(marks.evals)),
        ("resume", tag("line", x1=7, x2=7, y1=1, y2=13, class_="resumed"), len(marks.resumed)),
        ("non-finite value", tag("path", d="M4 4l6 6m-6 0l6 -6", class_="lost"), _nonfinite(found)),
    ]
    items = [tag("li", _symbol(drawn), " ", plural(count, word)) for word, drawn, count in symbols if count]
    words = tag("p", smoothing, class_="soft smoothing") if any(curve.smooth for curve in found) else None
    legend = tag("ul", items, class_="legend marks soft") if items else None
    return tag("div", legend, words, class_="marking") if items or words else None


def _symbol(drawn: Markup) -> Markup:
    return tag("svg", drawn, viewBox="0 0 14 14", width=14, height=14, aria_hidden="true")


def _nonfinite(curves: Iterable[Curve]) -> int:
    return sum(len(curve.nonfinite) for curve in curves)

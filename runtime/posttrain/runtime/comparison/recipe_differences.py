"""Renders the differences of the recipes: a row for each path, a column for each run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime.comparison.compared_run import ComparedRun
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import plural

_MAX_ROWS, _MAX_VALUE = 500, 400


@dataclass(frozen=True, kw_only=True)
class DifferingPath:
    """A path of the recipe whose value is not the same in all runs."""

    path: str
    # By run, as text; None in a run without a value.
    values: tuple[str | None, ...]


@dataclass(frozen=True, kw_only=True)
class RecipeDifferences:
    """The differences of all recipes from that of the first run, found by a client that has a compiler."""

    paths: tuple[DifferingPath, ...]
    # Messages about runs that could not be compared.
    notes: tuple[str, ...] = ()


# The differences between the recipes of runs, by their folders.
CompareRecipes = Callable[[Sequence[Path]], RecipeDifferences]


def recipes_section(runs: Sequence[ComparedRun], found: RecipeDifferences) -> Markup:
    notes = [tag("p", note, class_="read-error s-warning") for note in found.notes]
    if not found.paths:
        words = "The compared recipes are equal." if not notes else "No difference is known."
        return tag("div", tag("p", words), notes, class_="card")
    head = [tag("th", "Path", scope="col"), *(tag("th", run.mark, scope="col") for run in runs)]
    shown = found.paths[:_MAX_ROWS]
    rows = [
        tag("tr", tag("th", one.path, scope="row"), [_value(one, place) for place in range(len(runs))])
        for one in shown
    ]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="side recipes")
    left = len(found.paths) - len(shown)
    more = tag("p", f"{plural(left, 'more path')} not shown: `recipe diff` prints all.", class_="soft")
    framed = scroll_frame("Recipes", table, tall=len(rows) > SCROLL_ROWS)
    return tag("div", notes, framed, more if left else None, class_="card")


def _value(one: DifferingPath, place: int) -> Markup:
    value = one.values[place]
    changed = value != one.values[0]
    if value is None:
        return tag("td", tag("span", "not set", class_="soft"), class_="changed" if changed else None)
    words = value if len(value) <= _MAX_VALUE else f"{value[: _MAX_VALUE - 1]}\u2026"
    shown = tag("b", words) if changed else words
    return tag("td", tag("bdi", shown, class_="code"), class_="changed" if changed else None)

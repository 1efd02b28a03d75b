"""Renders the comparison of the runs that were checked in the list, with the sections of `recipe report`."""

from collections.abc import Sequence
from pathlib import Path

from posttrain.runtime.comparison.comparison_page import (
    compare_runs,
    comparison_header,
    comparison_sections,
    comparison_title,
)
from posttrain.runtime.comparison.recipe_differences import CompareRecipes
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.page_frame import navigation, page_section
from posttrain.runtime.store.home import Home
from posttrain.runtime.ui.live_document import still_document
from posttrain.runtime.ui.run_index import RunPlace
from posttrain.runtime.ui.runs_page import run_path

_ROOT = "../"
# A chart with more lines is not readable, and each run is read as a whole.
_MAX_RUNS = 12


def comparison_document(
    places: Sequence[RunPlace], runs: Sequence[tuple[Home, Path]], compare_recipes: CompareRecipes
) -> str:
    if not 2 <= len(runs) <= _MAX_RUNS:
        words = f"Check 2 to {_MAX_RUNS} runs in the list to compare them; {len(runs)} were checked."
        top = Markup(tag("header", tag("h1", "Comparison")) + _links(()))
        return still_document("Comparison", _ROOT, top, [tag("p", words, class_="card")], None)
    comparison = compare_runs(runs, compare_recipes([folder for _, folder in runs]))
    sections = comparison_sections(comparison)
    links = [(f"{run.mark}: {run.title}", place) for place, run in zip(places, comparison.runs, strict=True)]
    about = tag("p", "As of now: reload the page for later values of runs that proceed.", class_="soft")
    return still_document(
        comparison_title(comparison.runs),
        _ROOT,
        Markup(comparison_header(comparison.runs) + _links(links)),
        [about, *(page_section(section) for section in sections)],
        navigation([(section.name, section.title) for section in sections]),
    )


def _links(runs: Sequence[tuple[str, RunPlace]]) -> Markup:
    """Links to the list and to the pages of the runs."""
    items = [tag("a", "All runs", href=_ROOT)]
    items += [tag("a", words, href=f"{_ROOT}run/{run_path(place)}/") for words, place in runs]
    return tag("nav", tag("ul", [tag("li", item) for item in items], class_="chips"), aria_label="Runs")

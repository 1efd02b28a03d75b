"""Assembles the page that compares runs. It has the shell, the style sheet and the script of a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.comparison.compared_run import ComparedRun, read_compared_runs
from posttrain.runtime.comparison.comparison_curves import curves_section
from posttrain.runtime.comparison.comparison_metrics import Comparisons, metrics_section
from posttrain.runtime.comparison.comparison_samples import changes_section
from posttrain.runtime.comparison.line_styles import line_key
from posttrain.runtime.comparison.recipe_differences import RecipeDifferences, recipes_section
from posttrain.runtime.comparison.stage_comparison import compare_run_stages
from posttrain.runtime.report.markup import Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    format_duration,
    format_timestamp,
    join_words,
    plural,
)
from posttrain.runtime.report.page_assets import page_asset
from posttrain.runtime.report.page_frame import PageSection, render_document
from posttrain.runtime.report.run_summary import run_outcome
from posttrain.runtime.report.step_states import state_badge
from posttrain.runtime.store.home import Home

COMPARISON_FILE = "comparison.html"
_MAX_ERRORS = 12


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """The runs, and everything that differs between them."""

    # The first one is the baseline.
    runs: Sequence[ComparedRun]
    stages: Comparisons
    recipes: RecipeDifferences


def write_comparison(runs: Sequence[tuple[Home, Path]], recipes: RecipeDifferences, path: Path) -> None:
    """Compare runs with the first of them, and write the page atomically."""
    atomic_io.write_text(path, render_comparison(compare_runs(runs, recipes)))


def compare_runs(runs: Sequence[tuple[Home, Path]], recipes: RecipeDifferences) -> RunComparison:
    """Compare runs with the first of them."""
    read = read_compared_runs(runs)
    stages = {place: compare_run_stages(read[0], other) for place, other in enumerate(read[1:], start=1)}
    return RunComparison(runs=read, stages=stages, recipes=recipes)


def render_comparison(comparison: RunComparison) -> str:
    """Render the comparison as one HTML document."""
    return render_document(
        title=comparison_title(comparison.runs),
        top=comparison_header(comparison.runs),
        sections=comparison_sections(comparison),
        style=page_asset(__package__ or "", "comparison.css"),
    )


def comparison_title(runs: Sequence[ComparedRun]) -> str:
    return f"{plural(len(runs), 'run')} compared \u00b7 {runs[0].record.plan.name}"


def comparison_sections(comparison: RunComparison) -> list[PageSection]:
    runs = comparison.runs
    sections = [
        ("metrics", "Metrics", metrics_section(runs, comparison.stages)),
        ("changes", "Changed items", changes_section(runs, comparison.stages)),
        ("curves", "Curves", curves_section(runs)),
        ("recipes", "Recipes", recipes_section(runs, comparison.recipes)),
    ]
    return [PageSection(name, title, body) for name, title, body in sections if body is not None]


def comparison_header(runs: Sequence[ComparedRun]) -> Markup:
    recipes = list(dict.fromkeys(run.record.plan.name for run in runs))
    about = f"Runs of {join_words(recipes, 6)}. {runs[0].mark} is the baseline of all differences."
    return tag(
        "header",
        tag("div", tag("h1", f"{plural(len(runs), 'run')} compared"), class_="head"),
        tag("p", about, class_="sentence"),
        _run_table(runs),
        _read_errors(runs),
    )


def _run_table(runs: Sequence[ComparedRun]) -> Markup:
    heads = ("", "Run", "Recipe", "State", "Began", "Took", "Tags and note")
    head = [tag("th", words or tag("span", "Mark", class_="unseen"), scope="col") for words in heads]
    rows = [tag("tr", _run_cells(place, run)) for place, run in enumerate(runs)]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="runs")
    return tag("div", scroll_frame("Runs", table), class_="card")


def _run_cells(place: int, run: ComparedRun) -> list[Markup]:
    record, labels = run.record, run.labels
    took = record.ended - record.began if record.ended is not None and record.began is not None else None
    folder = tag("span", record.name, class_="soft run-folder") if labels.name else None
    note = tag("span", labels.note, class_="soft") if labels.note else None
    return [
        tag("td", line_key(place), tag("b", run.mark), class_="mark"),
        tag("th", run.title, folder, scope="row"),
        tag("td", record.plan.name),
        tag("td", state_badge(*run_outcome(record))),
        tag("td", format_timestamp(record.began), class_="time"),
        tag("td", DASH if took is None else format_duration(took), class_="time"),
        tag("td", ", ".join(labels.tags), " " if labels.tags and note else None, note),
    ]


def _read_errors(runs: Sequence[ComparedRun]) -> list[Markup]:
    found = [f"{run.mark}: {error}" for run in runs for error in run.record.read_errors]
    shown = [tag("p", error, class_="read-error s-warning") for error in found[:_MAX_ERRORS]]
    if len(found) > len(shown):
        shown.append(tag("p", f"{len(found) - len(shown):,} more records could not be read."))
    return shown

"""The search over completions without a card: the data in the page, and the list of what it finds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import format_value, plural
from posttrain.runtime.report.run_record import Sample, SearchRow, StepRecord
from posttrain.runtime.report.search_rows import MAX_SEARCH_TEXT

# The characters of all short rows in a page.
MAX_SEARCH_CHARACTERS = 1_500_000


@dataclass(frozen=True)
class SearchedEval:
    """An eval with the number of its cards, and the completions without one."""

    record: StepRecord
    cards: int
    rows: Sequence[SearchRow]


def short_row(sample: Sample) -> SearchRow:
    """A sample that has no card, in the form of the other rows."""
    return SearchRow(
        item=sample.item or 0,
        model=sample.model,
        outcome=sample.outcome,
        prompt=sample.prompt[:MAX_SEARCH_TEXT],
        completion=sample.completion[:MAX_SEARCH_TEXT],
        reference=format_value(dict(sample.reference))[:MAX_SEARCH_TEXT],
    )


def limit_rows(evals: Sequence[SearchedEval]) -> list[SearchedEval]:
    """The evals with the rows that the page contains. They share the limit equally."""
    found = [one for one in evals if one.rows]
    each = MAX_SEARCH_CHARACTERS // max(1, len(found))
    return [replace(one, rows=_first_rows(one.rows, each)) for one in found]


def _first_rows(rows: Sequence[SearchRow], most: int) -> Sequence[SearchRow]:
    count = 0
    for row in rows:
        most -= len(row.prompt) + len(row.completion) + len(row.reference)
        if most < 0:
            break
        count += 1
    return rows[:count]


def search_json(evals: Sequence[SearchedEval]) -> list[list[str | int]]:
    """Each row as stage, item, model, outcome and texts."""
    return [
        [one.record.id, row.item, row.model, row.outcome or "", row.prompt, row.completion, row.reference]
        for one in limit_rows(evals)
        for row in one.rows
    ]


def search_results(evals: Sequence[SearchedEval]) -> Markup | None:
    """What the search covers, and a place for what it finds."""
    covered = [_covered(one) for one in limit_rows(evals)]
    if not covered:
        return None
    note = tag("p", f"The search covers {' and '.join(covered)}.", class_="soft")
    results = tag(
        "section",
        tag("h3", "Found in completions without a card", id="more-results-title"),
        tag("p", id="more-results-count", class_="soft", aria_live="polite"),
        tag("ol", id="more-results", class_="results"),
        id="more-results-section",
        class_="card",
        hidden=True,
        aria_labelledby="more-results-title",
    )
    return Markup(note + results)


def _covered(one: SearchedEval) -> str:
    total = one.record.completions.total if one.record.completions is not None else 0
    left = total - one.cards - len(one.rows)
    missing = f" ({left:,} are only in completions.parquet)" if left > 0 else ""
    words = f"{plural(one.cards, 'card')} and the start of {len(one.rows):,} more completions"
    return f"{words} of {one.record.id}{missing}"

"""Renders the items whose outcome changed: both completions side by side, regressions first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from posttrain.runtime.comparison.changed_items import ChangedItems
from posttrain.runtime.comparison.compared_run import ComparedRun
from posttrain.runtime.comparison.comparison_metrics import Comparisons
from posttrain.runtime.report.conversation_turns import render_text
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import format_value, plural
from posttrain.runtime.report.run_record import Sample, StepRecord
from posttrain.runtime.report.sample_card import node_values, outcome_pill, sample_completion, sample_prompt

# Limits of a page: items, and characters of their texts.
_MAX_ITEMS, _MAX_CHARACTERS = 600, 4_000_000
_MIN_TEXT, _MAX_TEXT = 400, 6000
_ARROW = "\u2192"


@dataclass(frozen=True)
class _StageChanges:
    # The place of the run in the comparison.
    place: int
    record: StepRecord
    changed: ChangedItems


def changes_section(runs: Sequence[ComparedRun], comparisons: Comparisons) -> Markup | None:
    """The changed items of all stages; None if no stage could be compared item by item."""
    stages = [
        _StageChanges(place, record, stage.changed)
        for place, found in comparisons.items()
        for stage in found
        if stage.changed is not None and (record := runs[place].step(stage.stage)) is not None
    ]
    if not stages:
        return None
    each = max(4, _MAX_ITEMS // len(stages))
    cards = [(stage, sample) for stage in stages for sample in stage.changed.samples[:each]]
    room = max(_MIN_TEXT, min(_MAX_TEXT, _MAX_CHARACTERS // max(1, 3 * len(cards))))
    totals = [_total(runs, stage, min(each, len(stage.changed.samples))) for stage in stages]
    if not cards:
        return tag("div", totals, class_="card")
    names = list(dict.fromkeys(stage.record.id for stage in stages))
    return tag(
        "div",
        totals,
        _controls(runs, names, cards),
        tag(
            "div", [_card(runs, names, stage, sample, room) for stage, sample in cards], class_="samples wide"
        ),
        tag("button", "Show more", type="button", id="more-samples", hidden=True),
        id="browse",
    )


def _total(runs: Sequence[ComparedRun], stage: _StageChanges, shown: int) -> Markup:
    """How many completions changed, by kind, and how many of them the page has."""
    counts = stage.changed.counts
    kinds = [f"{count:,} {was} {_ARROW} {now}" for (was, now), count in sorted(counts.items()) if was != now]
    words = f": of {plural(sum(counts.values()), 'paired completion')}, " + (
        ", ".join(kinds) or "none changed"
    )
    left = stage.changed.total - shown
    words += f". {left:,} of the changed ones are not on this page." if left > 0 else "."
    names = tag("b", f"{stage.record.id}, {runs[0].mark} {_ARROW} {runs[stage.place].mark}")
    return tag("p", names, words, class_="soft")


def _controls(
    runs: Sequence[ComparedRun], names: Sequence[str], cards: Sequence[tuple[_StageChanges, Sample]]
) -> Markup:
    """Filters and a search. Hidden until the script, which runs them, loads."""
    kinds = dict.fromkeys(_change(sample) for _, sample in cards)
    places = dict.fromkeys(stage.place for stage, _ in cards)
    stages = {str(number): name for number, name in enumerate(names)}
    return tag(
        "form",
        _select("Stage ", "sample-stage", "all stages", stages),
        _select("Change ", "sample-outcome", "all changes", {one.replace(" ", "-"): one for one in kinds}),
        _select("Run ", "sample-model", "all runs", {runs[place].mark: runs[place].mark for place in places}),
        tag("label", "Text ", tag("input", type="search", id="sample-text", placeholder="find")),
        tag("output", plural(len(cards), "item"), id="sample-count", aria_live="polite"),
        class_="controls",
        hidden=True,
    )


def _select(label: str, id: str, every: str, options: Mapping[str, str]) -> Markup:
    found = [tag("option", every, value=""), *(tag("option", word, value=v) for v, word in options.items())]
    return tag("label", label, tag("select", found, id=id))


def _change(sample: Sample) -> str:
    was = sample.before.outcome if sample.before is not None else None
    return f"{was} to {sample.outcome}"


def _card(
    runs: Sequence[ComparedRun], names: Sequence[str], stage: _StageChanges, sample: Sample, room: int
) -> Markup:
    assert sample.before is not None, "a changed item has an earlier completion"
    name = f"change-{stage.place}-{names.index(stage.record.id)}-{sample.name}"
    head = tag(
        "div",
        tag("h3", tag("a", f"{stage.record.id}, row {sample.item}", href=f"#{name}")),
        tag("span", _change(sample), class_="soft"),
        class_="head",
    )
    base, other = runs[0], runs[stage.place]
    sides = [
        _side(base, sample.before, base.step(stage.record.id) or stage.record, room),
        _side(other, sample, stage.record, room),
    ]
    return tag(
        "article",
        head,
        sample_prompt(sample, room),
        [render_text(key, format_value(value), room) for key, value in sample.reference.items()],
        tag("div", sides, class_="sides"),
        class_="card sample",
        id=name,
        data_stage=str(names.index(stage.record.id)),
        data_outcome=_change(sample).replace(" ", "-"),
        data_model=other.mark,
    )


def _side(run: ComparedRun, sample: Sample, record: StepRecord, room: int) -> Markup:
    return tag("div", list(_side_parts(run, sample, record, room)), class_="side-by-side")


def _side_parts(run: ComparedRun, sample: Sample, record: StepRecord, room: int) -> Iterator[Markup | None]:
    model = tag("span", sample.model, class_="soft") if sample.model else None
    yield tag("div", tag("h4", f"Run {run.mark}"), model, outcome_pill(sample.outcome), class_="head")
    yield sample_completion(sample, record, room)
    yield node_values(sample)

"""Renders the sample browser: completions with the values of the reward nodes, failures and changes first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import plural
from posttrain.runtime.report.run_record import RunRecord, Sample, StepRecord
from posttrain.runtime.report.sample_card import SampleView, is_changed, sample_card
from posttrain.runtime.report.sample_correctness import (
    OUTCOMES,
    CorrectnessRule,
    correctness_rules,
    sample_outcome,
)
from posttrain.runtime.report.sample_shares import fair_shares
from posttrain.runtime.report.search_results import SearchedEval, search_results, short_row

# Limits of a page: samples (more are subsampled) and characters of their texts (truncated).
_MAX_SAMPLES = 600
_MAX_CHARACTERS = 3_000_000
_MIN_TEXT, _MAX_TEXT = 400, 8000
_CHANGED = "changed"


@dataclass(frozen=True)
class _Stage:
    # The position of the step in the plan.
    place: int
    record: StepRecord
    samples: Sequence[Sample]


def samples_section(run: RunRecord) -> Markup | None:
    stages = _stages(run)
    if not stages:
        return None
    views = [
        SampleView(number, f"sample-{stage.place}-{sample.name}", stage.record, sample)
        for number, stage in enumerate(stages)
        for sample in _cards(stage, stages)
    ]
    room = max(_MIN_TEXT, min(_MAX_TEXT, _MAX_CHARACTERS // len(views)))
    return tag(
        "div",
        [*_totals([stage.record for stage in stages])],
        _controls([stage.record for stage in stages], views),
        tag("div", [sample_card(view, room) for view in views], class_="samples"),
        tag("button", "Show more", type="button", id="more-samples", hidden=True),
        search_results(searched_evals(run)),
        id="browse",
    )


def searched_evals(run: RunRecord) -> list[SearchedEval]:
    """The completions of each eval that have no card, for the search."""
    stages = _stages(run)
    found: list[SearchedEval] = []
    for stage in stages:
        if (completions := stage.record.completions) is not None:
            cards = _cards(stage, stages)
            shown = {sample.name for sample in cards}
            left = (short_row(sample) for sample in stage.samples if sample.name not in shown)
            found.append(SearchedEval(stage.record, len(cards), (*left, *completions.search_rows)))
    return found


def _stages(run: RunRecord) -> list[_Stage]:
    """The stages with samples, the newest first."""
    rules = correctness_rules(run)
    stages = [_stage(place, record, rules[record.id]) for place, record in enumerate(run.steps)]
    return [stage for stage in reversed(stages) if stage.samples]


def _cards(stage: _Stage, stages: Sequence[_Stage]) -> list[Sample]:
    """The samples of a stage that have a card. The stages share the limit of the page."""
    return choose_samples(stage.samples, max(2, _MAX_SAMPLES // len(stages)))


def _stage(place: int, record: StepRecord, rule: CorrectnessRule | None) -> _Stage:
    """The samples of a step: from the product of an eval, else from its events, failures first."""
    if record.completions is not None:
        return _Stage(place, record, record.completions.samples)
    found = [
        replace(sample, outcome=sample_outcome(rule, sample), name=str(number))
        for number, sample in enumerate(record.events.samples)
    ]
    if record.step.kind in ("eval", "benchmark"):
        found.sort(key=lambda one: not _is_failure(one))
    return _Stage(place, record, found)


def choose_samples(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most `most` samples in their order: failures and changes before others, of which a fifth remain.

    Each kind of failures and changes has a part of them.
    """
    if len(samples) <= most:
        return list(samples)
    failed = [index for index, one in enumerate(samples) if _is_failure(one)]
    others = [index for index, one in enumerate(samples) if not _is_failure(one)]
    kept = _each_kind(samples, failed, max(most - len(others), most - most // 5))
    kept += sample_evenly(others, most - len(kept))
    return [samples[index] for index in sorted(kept)]


def _each_kind(samples: Sequence[Sample], places: Sequence[int], most: int) -> list[int]:
    """The first places of each kind of samples."""
    kinds: dict[tuple[str | None, bool], list[int]] = {}
    for place in places:
        kinds.setdefault((samples[place].outcome, is_changed(samples[place])), []).append(place)
    shares = fair_shares({kind: len(found) for kind, found in kinds.items()}, most)
    return [place for kind, found in kinds.items() for place in found[: shares[kind]]]


def _is_failure(sample: Sample) -> bool:
    return sample.outcome in ("wrong", "unscored") or is_changed(sample)


def sample_evenly(found: Sequence[int], most: int) -> list[int]:
    """At most `most` numbers, evenly spaced."""
    if len(found) <= most:
        return list(found)
    return [found[place * len(found) // most] for place in range(most)]


def _totals(records: Sequence[StepRecord]) -> Iterator[Markup]:
    """A line for each eval: how many of all completions have each outcome."""
    for record in records:
        found = record.completions
        if found is not None and found.counts:
            parts = [f"{found.counts[kind]:,} {kind}" for kind in OUTCOMES if kind in found.counts]
            parts += [f"{found.changed:,} changed"] if found.changed else []
            yield tag(
                "p",
                tag("b", record.id),
                f": of {plural(found.total, 'completion')}, {', '.join(parts)}",
                class_="soft",
            )


def _controls(stages: Sequence[StepRecord], views: Sequence[SampleView]) -> Markup:
    """Filters for stage and outcome, and a search. Hidden until the script, which runs them, loads."""
    every = tag("option", "all stages", value="")
    options = [tag("option", record.id, value=str(number)) for number, record in enumerate(stages)]
    found = [kind for kind in OUTCOMES if any(view.sample.outcome == kind for view in views)]
    found += [_CHANGED] if any(is_changed(view.sample) for view in views) else []
    kinds = [tag("option", "all outcomes", value=""), *(tag("option", k, value=k) for k in found)]
    return tag(
        "form",
        tag("label", "Stage ", tag("select", every, options, id="sample-stage")),
        tag("label", "Outcome ", tag("select", kinds, id="sample-outcome")) if found else None,
        _model_filter(views),
        tag("label", "Text ", tag("input", type="search", id="sample-text", placeholder="find")),
        tag("output", plural(len(views), "sample"), id="sample-count", aria_live="polite"),
        class_="controls",
        hidden=True,
    )


def _model_filter(views: Sequence[SampleView]) -> Markup | None:
    """A filter for the model, where the samples name several."""
    models = list(dict.fromkeys(view.sample.model for view in views if view.sample.model))
    if len(models) < 2:
        return None
    options = [tag("option", "all models", value=""), *(tag("option", m, value=m) for m in models)]
    return tag("label", "Model ", tag("select", options, id="sample-model"))

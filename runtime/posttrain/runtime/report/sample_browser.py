"""Renders the sample browser: prompts, completions, and the values of the reward nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.runtime.report.conversation_turns import render_turns
from posttrain.runtime.report.markup import Markup, preformatted, tag
from posttrain.runtime.report.number_format import format_value, mapping_or_empty, plural
from posttrain.runtime.report.run_record import RunRecord, Sample, StepRecord
from posttrain.runtime.report.sample_correctness import OUTCOMES, correctness_rules, sample_outcome
from posttrain.runtime.report.step_states import state_icon

# Limits of a page: samples (more are subsampled evenly) and characters of their texts (truncated).
_MAX_SAMPLES = 600
_MAX_CHARACTERS = 3_000_000
_MIN_TEXT, _MAX_TEXT = 400, 8000
_OUTCOME_STATES = {"right": "pass", "wrong": "fail", "unscored": "inconclusive"}


@dataclass(frozen=True)
class _SampleView:
    stage: int
    record: StepRecord
    sample: Sample
    outcome: str | None


def samples_section(run: RunRecord) -> Markup | None:
    stages = [record for record in reversed(run.steps) if record.events.samples]  # newest first
    if not stages:
        return None
    each = max(2, _MAX_SAMPLES // len(stages))
    shown: list[_SampleView] = []
    judges = correctness_rules(run)
    for number, record in enumerate(stages):
        judge = judges[record.id]
        shown += [
            _SampleView(number, record, sample, sample_outcome(judge, sample))
            for sample in sample_evenly(record.events.samples, each)
        ]
    room = max(_MIN_TEXT, min(_MAX_TEXT, _MAX_CHARACTERS // len(shown)))
    cards = [_card(one, room) for one in shown]
    return tag(
        "div",
        _controls(stages, shown),
        tag("div", cards, class_="samples"),
        tag("button", "Show more", type="button", id="more-samples", hidden=True),
        id="browse",
    )


def sample_evenly(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most `most` samples, evenly spaced."""
    if len(samples) <= most:
        return list(samples)
    return [samples[place * len(samples) // most] for place in range(most)]


def _controls(stages: Sequence[StepRecord], shown: Sequence[_SampleView]) -> Markup:
    """Filters for stage and outcome, and a search. Hidden until the script, which runs them, loads."""
    every = tag("option", "all stages", value="")
    options = [tag("option", record.id, value=str(number)) for number, record in enumerate(stages)]
    found = [kind for kind in OUTCOMES if any(one.outcome == kind for one in shown)]
    kinds = [tag("option", "all outcomes", value=""), *(tag("option", k, value=k) for k in found)]
    return tag(
        "form",
        tag("label", "Stage ", tag("select", every, options, id="sample-stage")),
        tag("label", "Outcome ", tag("select", kinds, id="sample-outcome")) if found else None,
        _model_filter(shown),
        tag("label", "Text ", tag("input", type="search", id="sample-text", placeholder="find")),
        tag("output", plural(len(shown), "sample"), id="sample-count", aria_live="polite"),
        class_="controls",
        hidden=True,
    )


def _model_filter(shown: Sequence[_SampleView]) -> Markup | None:
    """A filter for the model, where the samples name several."""
    models = list(dict.fromkeys(one.sample.model for one in shown if one.sample.model))
    if len(models) < 2:
        return None
    options = [tag("option", "all models", value=""), *(tag("option", m, value=m) for m in models)]
    return tag("label", "Model ", tag("select", options, id="sample-model"))


def _card(shown: _SampleView, room: int) -> Markup:
    sample = shown.sample
    origin = f"step {sample.step}" if shown.record.step.kind != "eval" else sample.model or None
    sign = _OUTCOME_STATES.get(shown.outcome or "")
    mark = tag("span", state_icon(sign), shown.outcome or "", class_=f"pill s-{sign}") if sign else None
    head = tag(
        "div",
        tag("h3", shown.record.id),
        tag("span", origin, class_="soft") if origin else None,
        mark,
        class_="head",
    )
    values = [_value(name, value) for name, value in sample.values.items()]
    return tag(
        "article",
        head,
        _text("Prompt", sample.prompt, room),
        _completion(shown, room),
        tag("ul", values, class_="chips") if values else None,
        class_="card sample",
        data_stage=shown.stage,
        data_outcome=shown.outcome or "",
        data_model=sample.model or None,
    )


def _completion(shown: _SampleView, room: int) -> Markup:
    """A text, or the turns of a conversation or an episode."""
    turns = shown.sample.turns
    episode = bool(mapping_or_empty(shown.record.step.params).get("environment"))
    if not turns:
        name = "Model output" if episode else "Completion"
        return _text(name, shown.sample.completion, room)
    head = tag("h4", f"{'Episode' if episode else 'Completion'}, {plural(len(turns), 'turn')}")
    return tag("div", head, render_turns(turns, room, episode=episode), class_="text")


def _text(name: str, words: str, room: int) -> Markup:
    """A text with its whitespace; marks an empty text, and says how much of a long text is omitted."""
    if not words:
        return tag("div", tag("h4", name), tag("p", "empty", class_="soft"), class_="text")
    left = len(words) - room
    more = tag("p", f"{left:,} more characters are not shown.", class_="soft") if left > 0 else None
    shown = preformatted(words[:room], reached=_may_scroll(words))
    return tag("div", tag("h4", name), shown, more, class_="text")


def _may_scroll(words: str) -> bool:
    """Whether a text can need scrolling, so that the keyboard must reach it."""
    return len(words) > 500 or words.count("\n") > 8


def _value(name: str, value: object) -> Markup:
    words = "none" if value is None else format_value(value)
    cut = words if len(words) <= 80 else words[:79] + "\u2026"
    return tag("li", tag("span", name), " ", tag("bdi", tag("b", cut)))

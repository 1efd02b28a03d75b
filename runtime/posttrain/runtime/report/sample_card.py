"""Renders a sample: its row, the completion, the values of the reward nodes, the earlier completion."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.conversation_turns import render_text, render_turns
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import format_value, mapping_or_empty, plural
from posttrain.runtime.report.run_record import Sample, StepRecord
from posttrain.runtime.report.step_states import state_icon

_OUTCOME_STATES = {"right": "pass", "wrong": "fail", "unscored": "inconclusive"}
_MAX_VALUE, _MAX_REASON = 80, 300


@dataclass(frozen=True)
class SampleView:
    # The number of the stage among those with samples, and the name of the card in links.
    stage: int
    name: str
    record: StepRecord
    sample: Sample


def is_changed(sample: Sample) -> bool:
    """Whether the earlier completion of the same row has another outcome."""
    before = sample.before.outcome if sample.before is not None else None
    return None not in (before, sample.outcome) and before != sample.outcome


def sample_card(view: SampleView, room: int) -> Markup:
    sample = view.sample
    outcomes = (sample.outcome, "changed" if is_changed(sample) else "")
    return tag(
        "article",
        _head(view),
        sample_prompt(sample, room),
        [render_text(name, format_value(value), room) for name, value in sample.reference.items()],
        sample_completion(sample, view.record, room),
        node_values(sample),
        _earlier(sample.before, view.record, room),
        class_="card sample",
        id=view.name,
        data_stage=view.stage,
        data_outcome=" ".join(filter(None, outcomes)),
        data_model=sample.model or None,
    )


def _head(view: SampleView) -> Markup:
    sample = view.sample
    origin = f"step {sample.step}" if view.record.step.kind != "eval" else sample.model
    row = f"row {sample.item}" if sample.item is not None else ""
    before = sample.before.outcome if is_changed(sample) and sample.before is not None else None
    return tag(
        "div",
        tag("h3", tag("a", view.record.id, href=f"#{view.name}")),
        tag("span", " ".join(filter(None, (origin, row))), class_="soft") if origin or row else None,
        outcome_pill(sample.outcome, f"was {before}" if before else ""),
        class_="head",
    )


def outcome_pill(outcome: str | None, change: str = "") -> Markup | None:
    """The outcome of a sample as a colored label."""
    state = _OUTCOME_STATES.get(outcome or "")
    if state is None:
        return None
    words = ", ".join(filter(None, (outcome, change)))
    return tag("span", state_icon(state), words, class_=f"pill s-{state}")


def sample_prompt(sample: Sample, room: int) -> Markup:
    """A text, or the messages of a prompt with their roles."""
    if not sample.prompt_turns:
        return render_text("Prompt", sample.prompt, room)
    head = tag("h4", f"Prompt, {plural(len(sample.prompt_turns), 'message')}")
    return tag("div", head, render_turns(sample.prompt_turns, room, episode=False), class_="text")


def sample_completion(sample: Sample, record: StepRecord, room: int) -> Markup:
    """A text, or the turns of a conversation or an episode."""
    turns = sample.turns
    episode = bool(mapping_or_empty(record.step.params).get("environment"))
    if not turns:
        return render_text("Model output" if episode else "Completion", sample.completion, room)
    head = tag("h4", f"{'Episode' if episode else 'Completion'}, {plural(len(turns), 'turn')}")
    return tag("div", head, render_turns(turns, room, episode=episode), class_="text")


def node_values(sample: Sample) -> Markup | None:
    """The value of each node, and why it has this value."""
    items = [*_value_items(sample.values, sample.reasons)]
    return tag("ul", items, class_="chips") if items else None


def _value_items(values: Mapping[str, Any], reasons: Mapping[str, str]) -> Iterator[Markup]:
    for name, value in values.items():
        words = "none" if value is None else format_value(value)
        reason = reasons.get(name)
        yield tag(
            "li",
            tag("span", name),
            " ",
            tag("bdi", tag("b", _shorten(words, _MAX_VALUE))),
            [" ", tag("bdi", _shorten(reason, _MAX_REASON), class_="reason")] if reason else None,
        )


def _shorten(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "\u2026"


def _earlier(before: Sample | None, record: StepRecord, room: int) -> Markup | None:
    """The completion of an earlier model for the same row, folded."""
    if before is None:
        return None
    origin = " ".join(filter(None, (before.stage if before.stage != record.id else "", before.model)))
    summary = tag("summary", f"Before: {origin} ", outcome_pill(before.outcome))
    return tag(
        "details", summary, sample_completion(before, record, room), node_values(before), class_="before"
    )

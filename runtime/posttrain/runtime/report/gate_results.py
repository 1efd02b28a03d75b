"""Renders the gates: the estimate, the interval and the threshold of each condition."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.report.interval_bars import finite_values, threshold_bar
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_decimals,
    format_signed,
    join_words,
    mapping_or_empty,
    plural,
)
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import known_state, state_badge, state_label


def gates_section(run: RunRecord) -> Markup | None:
    found = [_gate(run, record) for record in run.steps if record.step.kind == "gate"]
    return Markup("".join(found)) if found else None


def gate_verdict(record: StepRecord) -> str | None:
    """The verdict of a gate, or None before the decision."""
    verdict = record.facts.get("verdict")
    return verdict if verdict in ("pass", "fail", "inconclusive") else None


def gate_conditions(record: StepRecord) -> list[Mapping[str, Any]]:
    """The decided conditions, or the planned ones before the decision."""
    decided = record.facts.get("conditions")
    planned = mapping_or_empty(record.step.params).get("conditions")
    found = decided if isinstance(decided, list) else planned
    return [mapping_or_empty(one) for one in found] if isinstance(found, list) else []


def held_steps(run: RunRecord, gate: str) -> list[str]:
    return [record.id for record in run.steps if record.state == "held" and gate in record.step.gates]


def skipped_steps(run: RunRecord, gate: StepRecord) -> list[str]:
    """The steps in the branches of this gate that its verdict did not select."""
    params = mapping_or_empty(gate.step.params)
    branches = [mapping_or_empty(params.get(case)).get("run") for case in ("on_fail", "on_inconclusive")]
    named = {name for branch in branches if isinstance(branch, list) for name in branch}
    return [
        record.id
        for record in run.steps
        if record.state == "skipped" and gate.id in record.step.gates and record.id.partition("@")[0] in named
    ]


def _gate(run: RunRecord, record: StepRecord) -> Markup:
    verdict = gate_verdict(record)
    head = tag(
        "div",
        tag("h3", record.id),
        state_badge(verdict) if verdict else state_badge(record.state),
        class_="head",
    )
    conditions = [_condition(one) for one in gate_conditions(record)]
    corrected = record.facts.get("correction") == "holm" and len(conditions) > 1
    words = f" A condition fails only after Holm's correction over all {len(conditions)} conditions."
    return tag(
        "section",
        head,
        tag("p", _outcome_text(run, record) + words * corrected, class_="soft"),
        conditions,
        class_="card gate",
    )


def _outcome_text(run: RunRecord, record: StepRecord) -> str:
    """The effect of the verdict on the rest of the run."""
    verdict = gate_verdict(record)
    if verdict is not None:
        skipped = skipped_steps(run, record)
        others = f" It skipped {join_words(skipped, 6)}: the branch of another verdict." if skipped else ""
        return f"{_verdict_text(run, record, verdict)}{others}"
    if record.state == "skipped":
        return f"This gate was skipped{f' ({record.reason})' if record.reason else ''}."
    return record.reason or f"This gate has no verdict: {state_label(record.state)}."


def _verdict_text(run: RunRecord, record: StepRecord, verdict: str) -> str:
    params = mapping_or_empty(record.step.params)
    held = held_steps(run, record.id)
    rule = params.get("on_fail" if verdict == "fail" else "on_inconclusive")
    branch = mapping_or_empty(rule).get("run") if verdict != "pass" else None
    if isinstance(branch, list):
        words = f"It started {join_words([str(name) for name in branch], 6)}"
        return f"{words} and held back {join_words(held, 6)}." if held else f"{words}."
    if held:
        return f"It held back {join_words(held, 6)}."
    if verdict != "pass" and rule in ("warn", "pass"):
        return f"The run continued because the recipe sets `on_{verdict}: {rule}`."
    if verdict == "pass":
        return "It let the steps that depend on it run."
    return "No step depends on it."


def _condition(found: Mapping[str, Any]) -> Markup:
    verdict = found.get("verdict")
    words = tag("h4", str(found.get("text") or found.get("kind") or "a condition"))
    if not isinstance(verdict, str):
        return tag(
            "div", tag("div", words, state_badge("waiting", "not decided"), class_="head"), class_="condition"
        )
    head = tag("div", words, state_badge(verdict), class_="head")
    values = finite_values(*(found.get(name) for name in ("value", "low", "high", "threshold")))
    if values is None:
        line = tag("p", _no_interval_text(found), class_="soft")
    else:
        value, low, high, threshold = values
        line = threshold_bar(value, low, high, threshold, str(found.get("kind")), known_state(verdict))
    return tag("div", head, line, _facts(found), _paired_counts(found), class_="condition")


def _no_interval_text(found: Mapping[str, Any]) -> str:
    items = finite_or_none(found.get("items"))
    if not items:
        return "No item was scored, so there is nothing to decide on."
    value = format_decimals(found.get("value"))
    return f"Value {value} from {plural(int(items), 'item')}: too few for an interval."


def _facts(found: Mapping[str, Any]) -> Markup | None:
    low, high = finite_or_none(found.get("low")), finite_or_none(found.get("high"))
    if low is None or high is None:
        return None
    gain = found.get("kind") == "better_than"
    shown = format_signed if gain else format_decimals
    sure = finite_or_none(found.get("confidence"))
    items = finite_or_none(found.get("items"))
    parts = [
        (("gain" if gain else "estimate"), shown(found.get("value"))),
        (f"{sure:.0%} interval" if sure is not None else "interval", f"{shown(low)} to {shown(high)}"),
    ]
    if items is not None:
        parts.append(("pairs" if gain else "items", f"{items:,.0f}"))
    if gain:
        parts += _gain_facts(found)
    p, method = finite_or_none(found.get("p")), found.get("method")
    if p is not None and isinstance(method, str):
        parts.append((f"{method}, p", f"{p:.2g}"))
    parts += _correction_facts(found)
    return tag("p", [tag("span", name, " ", tag("b", value)) for name, value in parts], class_="facts")


def _gain_facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    parts = [("margin", format_signed(found.get("threshold")))]
    both = finite_or_none(found.get("baseline_value")), finite_or_none(found.get("metric_value"))
    if None not in both:
        parts.append(("from", f"{format_decimals(both[0])} to {format_decimals(both[1])}"))
    if unpaired := finite_or_none(found.get("unpaired")):
        parts.append(("left out because only one side has a value", plural(int(unpaired), "item")))
    return parts


def _correction_facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Why a failed test counts as inconclusive. The error level is one-sided; p is two-sided."""
    if not found.get("corrected"):
        return []
    error = finite_or_none(found.get("compared_with"))
    level = f", which requires p below {2 * error:.2g}" if error is not None else ""
    return [("inconclusive after", f"Holm's correction{level}")]


def _paired_counts(found: Mapping[str, Any]) -> Markup | None:
    """How many of the items that both evals measured improved, and how many got worse."""
    counted = finite_values(found.get("better"), found.get("worse"), found.get("items"))
    if counted is None or counted[2] <= 0:
        return None
    better, worse, items = counted
    same = max(0.0, items - better - worse)
    words = f"{better:,.0f} better, {worse:,.0f} worse, {same:,.0f} the same"
    parts: list[Markup] = []
    start = 0.0
    for kind, count in (("better", better), ("worse", worse), ("same", same)):
        width = 100 * count / items
        parts.append(tag("rect", x=f"{start:.2f}%", width=f"{width:.2f}%", height=10, class_=kind))
        start += width
    bar = tag("svg", parts, class_="pairs", width="100%", height=10, role="img", aria_label=words)
    return tag("div", bar, tag("p", f"Of {plural(int(items), 'item')}: ", tag("b", words), class_="facts"))

"""Renders the top of the page: the run, its result, and its metrics at a glance."""

from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.report.expected_vs_measured import spending_text
from posttrain.runtime.report.gate_results import gate_conditions, gate_verdict, held_steps
from posttrain.runtime.report.interval_bars import interval_bar
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.metric_rows import EvalMetric, metric_axis, run_metrics
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_decimals,
    format_duration,
    format_timestamp,
    join_words,
    plural,
)
from posttrain.runtime.report.run_costs import run_spending
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import state_badge, state_label
from posttrain.runtime.report.timeline import work_summary

_MAX_CARDS = 7
_MAX_GATES = 3


def run_outcome(run: RunRecord) -> tuple[str, str]:
    """The result of the run: the state to display, and its label."""
    states = {record.state for record in run.steps}
    for state, words in (
        ("failed", "Failed"),
        ("interrupted", "Interrupted"),
        ("held", "Held at a gate"),
        ("blocked", "Not finished"),
        ("unknown", "Unknown"),
    ):
        if state in states:
            return state, words
    if run.result is None:
        return "running", "Running" if run.is_running else "Unfinished"
    nothing = "cached" in states and states <= {"cached", "skipped"}
    return ("cached", "Finished: nothing to run") if nothing else ("done", "Finished")


def result_sentence(run: RunRecord) -> str:
    """The result of the run in one sentence."""
    by_state: dict[str, list[StepRecord]] = {}
    for record in run.steps:
        by_state.setdefault(record.state, []).append(record)
    if failed := by_state.get("failed"):
        more = f", and {plural(len(failed) - 1, 'more step')} failed" if len(failed) > 1 else ""
        return f"{failed[0].id} failed: {failed[0].reason or 'no reason was recorded'}{more}."
    if "interrupted" in by_state:
        stopped = _step_names(by_state["interrupted"])
        return f"The run was interrupted in {stopped}. Run it again to resume from there."
    if "held" in by_state:
        return _held_sentence(run, by_state["held"])
    if run.is_running:
        finished = sum(record.state in ("done", "cached") for record in run.steps)
        return f"{finished:,} of {plural(len(run.steps), 'step')} finished so far."
    count = len(by_state.get("skipped", ()))
    selected = len(run.steps) - count
    skipped = f" {plural(count, 'more step')} {'was' if count == 1 else 'were'} skipped." if count else ""
    if "blocked" in by_state or "unknown" in by_state:
        finished = sum(record.state in ("done", "cached") for record in run.steps)
        return f"{finished:,} of {plural(selected, 'step')} finished.{skipped}"
    if run.result is None:
        return "The run was in progress when this page was generated, or it was killed."
    cached = len(by_state.get("cached", ()))
    if cached == selected:
        return f"All {plural(cached, 'step')} finished in earlier runs.{skipped}"
    earlier = f", {cached:,} of them in earlier runs" if cached else ""
    return f"All {plural(selected, 'step')} finished{earlier}.{skipped}"


def _held_sentence(run: RunRecord, held: list[StepRecord]) -> str:
    gates = [r.id for r in run.steps if r.step.kind == "gate" and held_steps(run, r.id)]
    if not gates:
        return f"{_step_names(held)} was held back by a gate."
    return f"The gate {join_words(gates)} held back {_step_names(held)}."


def _step_names(records: list[StepRecord]) -> str:
    return join_words([record.id for record in records])


def page_header(run: RunRecord) -> Markup:
    state, words = run_outcome(run)
    plan = run.plan
    line = [run.name, f"started {format_timestamp(run.began)}" if run.began is not None else ""]
    return tag(
        "header",
        tag("div", tag("h1", plan.name), state_badge(state, words), class_="head"),
        tag("p", plan.description, class_="lead") if plan.description else None,
        tag("p", result_sentence(run), class_="sentence"),
        tag("p", " \u00b7 ".join(filter(None, line)), class_="soft"),
        [tag("p", error, class_="read-error s-warning") for error in run.read_errors[:12]],
        tag("p", f"{len(run.read_errors) - 12:,} more records could not be read.")
        if len(run.read_errors) > 12
        else None,
    )


def summary_cards(run: RunRecord) -> Markup:
    """Cards for the time, the last metrics, and the gates."""
    found = run_metrics(run)
    gates = [record for record in run.steps if record.step.kind == "gate"]
    room = _MAX_CARDS - min(len(gates), _MAX_GATES)
    shown = [
        *(_gate_card(record) for record in gates[:_MAX_GATES]),
        *(_metric_card(m, found) for m in found[-room:]),
    ]
    left = [
        plural(count, what)
        for count, what in ((len(gates) - _MAX_GATES, "more gate"), (len(found) - room, "more metric"))
        if count > 0
    ]
    note = tag("p", f"{join_words(left)} below.", class_="soft") if left else None
    return tag("section", tag("div", _time_card(run), shown, class_="cards"), note, aria_label="At a glance")


def _card(name: str, figure: object, *more: object, link: str) -> Markup:
    shown = figure if isinstance(figure, Markup) else tag("span", str(figure), class_="figure")
    inner = [
        tag("h2", name),
        shown,
        *(one if isinstance(one, Markup) else tag("p", str(one)) for one in more),
    ]
    return tag("a", inner, class_="card glance", href=link)


def _time_card(run: RunRecord) -> Markup:
    ended = [r.ended for r in run.steps if r.ended is not None] if run.is_running else []
    last = run.ended if run.ended is not None else max(ended, default=None)
    elapsed = max(0.0, last - run.began) if last is not None and run.began is not None else None
    busy = sum(finite_or_none(r.cost.get("seconds")) or 0.0 for r in run.steps if r.state != "cached")
    more = [work_summary(run)] + ([f"{format_duration(busy)} in all steps together"] if busy else [])
    spent = run_spending(run)
    more += [f"{spending_text(spent)} at the prices of the plan"] if spent is not None else []
    return _card("Time", format_duration(elapsed) if elapsed is not None else DASH, *more, link="#timeline")


def _metric_card(metric: EvalMetric, others: list[EvalMetric]) -> Markup:
    values = metric.values
    items = finite_or_none(metric.data.get("items"))
    count = plural(int(items), "item") if items is not None else ""
    name = f"{metric.name} \u00b7 {metric.label}"
    if values is None:
        return _card(
            name, format_decimals(metric.data.get("value")), count or "no scored items", link="#metrics"
        )
    drawn = interval_bar(values[0], values[1], values[2], metric_axis(metric, others))
    interval = f"{CONFIDENCE:.0%} interval {format_decimals(values[1])} \u2013 {format_decimals(values[2])}"
    return _card(
        name, format_decimals(values[0]), drawn, ", ".join(filter(None, (interval, count))), link="#metrics"
    )


def _gate_card(record: StepRecord) -> Markup:
    verdict = gate_verdict(record)
    lines = [
        tag("p", tag("b", str(one["verdict"])), f" \u00b7 {one.get('text', '')}")
        for one in gate_conditions(record)
        if "verdict" in one
    ]
    figure = tag(
        "span",
        state_badge(verdict)
        if verdict
        else state_badge(record.state, f"not decided: {state_label(record.state)}"),
        class_="figure",
    )
    return _card(f"gate \u00b7 {record.id}", figure, *lines[:3], link="#gates")

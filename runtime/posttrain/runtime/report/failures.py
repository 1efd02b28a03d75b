"""Renders failures with their advice, steps that did not run with the reason, and warnings."""

from collections.abc import Iterator

from posttrain.runtime.report.markup import Markup, preformatted, tag
from posttrain.runtime.report.number_format import format_duration, join_words, plural
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import state_badge, state_icon

_MAX_CAUSES = 40
# Of a run in progress, these steps have no problem.
_PENDING = ("waiting", "queued", "running")


def failures_section(run: RunRecord) -> Markup | None:
    """Failures and interruptions grouped by cause, then the steps that did not run."""
    causes: dict[tuple[str, str, str], list[StepRecord]] = {}
    for record in run.steps:
        if record.state in ("failed", "interrupted") and record.attempt:
            causes.setdefault((record.state, record.reason, record.advice), []).append(record)
    parts = [_failure_card(records) for records in list(causes.values())[:_MAX_CAUSES]]
    if len(causes) > _MAX_CAUSES:
        parts.append(
            tag("p", f"{plural(len(causes) - _MAX_CAUSES, 'more cause')}: see Steps.", class_="soft")
        )
    parts += list(_not_run(run))
    return Markup("".join(parts)) if parts else None


def failures_title(run: RunRecord) -> str:
    """Skipped steps alone do not make a run unfinished."""
    fine = ("done", "cached", "skipped", *(_PENDING if run.is_running else ()))
    bad = any(record.state not in fine for record in run.steps)
    return "Not finished" if bad else "Skipped steps"


def _failure_card(records: list[StepRecord]) -> Markup:
    first = records[0]
    about = [f"attempt {first.attempt}"] if first.attempt > 1 else []
    about += [f"after {format_duration(first.seconds)}"] if first.seconds is not None else []
    others = [record.id for record in records[1:]]
    log = tag("details", tag("summary", "End of the log"), preformatted("\n".join(first.log_tail)))
    return tag(
        "section",
        tag(
            "div",
            tag("h3", first.id),
            state_badge(first.state),
            tag("span", ", ".join(about), class_="soft"),
            class_="head",
        ),
        tag("p", first.reason or "No reason was recorded.", class_="reason"),
        tag("p", tag("b", "What to do: "), first.advice, class_="advice") if first.advice else None,
        tag("p", f"Same failure in {join_words(others, 12)}.", class_="advice") if others else None,
        log if first.log_tail else None,
        class_=f"card failure s-{first.state}",
    )


def _not_run(run: RunRecord) -> Iterator[Markup]:
    """Steps that did not start, by reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in run.steps:
        if run.is_running and record.state in _PENDING:
            continue
        idle = record.state == "interrupted" and not record.attempt
        if record.state in ("held", "blocked", "skipped", "waiting") or idle:
            reasons.setdefault((record.state, record.reason), []).append(record.id)
    if reasons:
        items = [
            tag(
                "li", state_badge(state), " ", tag("b", join_words(ids, 8)), f": {reason}" if reason else None
            )
            for (state, reason), ids in reasons.items()
        ]
        yield tag("section", tag("h3", "Not run"), tag("ul", items, class_="plain"), class_="card")


def warnings_section(run: RunRecord) -> Markup | None:
    found = [(record, warned) for record in run.steps for warned in record.events.warnings]
    if not found:
        return None
    items = [
        tag(
            "li",
            state_icon("warning"),
            tag(
                "div",
                tag("b", record.id),
                f" {warned.message}",
                tag("span", f" ({warned.count:,} times)", class_="soft") if warned.count > 1 else None,
                tag("p", warned.advice, class_="soft") if warned.advice else None,
            ),
        )
        for record, warned in found[:200]
    ]
    if len(found) > 200:
        items.append(tag("li", f"{len(found) - 200:,} more warnings are in the events.jsonl of their steps."))
    return tag("div", tag("ul", items, class_="warnings"), class_="card s-warning")

"""A plan, or what a change does to it, as Markdown for one comment on a pull request."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.cli.compile import display_path
from posttrain.cli.diff_report import change_line, step_rows, used_columns
from posttrain.cli.estimate_text import estimate_cells, total_estimate
from posttrain.cli.markdown_text import code_span, folded, table
from posttrain.cli.text_tables import PENDING_STATES
from posttrain.runtime.report.number_format import plural

if TYPE_CHECKING:
    from posttrain.cli.revision_comparison import RevisionComparison
    from posttrain.runtime.execution.dry_run import StepForecast
    from posttrain.spec.diagnostic import Diagnostic
    from posttrain.spec.plan import Plan, Step

# A comment has a limit of 65,536 characters.
_MAX_CHANGES = 40
_MAX_ERRORS = 20
_MAX_STEPS = 100
# Cells that are no text of the recipe: kind, state, time, memory, cost.
_PLAIN_COLUMNS = frozenset(("kind", "state", "time", "memory", "cost"))


def comparison_markdown(file: Path, found: "RevisionComparison") -> str:
    """What a change invalidates and costs."""
    report = found.report
    since = f"{code_span(found.revision)} ({found.commit[:12]})"
    lines = [f"### {code_span(display_path(file))}", ""]
    if found.absence:
        lines += [f"Nothing to compare with: {code_span(found.absence)}. All steps are new.", ""]
    lines += [f"**{_headline(found)}**", f"Compared with {since}.", ""]
    lines += [f"- {code_span(note)}" for note in found.notes] + ([""] if found.notes else [])
    if report.changes and not found.absence:
        shown = [f"- {code_span(change_line(change))}" for change in report.changes[:_MAX_CHANGES]]
        lines += [*shown, *_more(len(report.changes), _MAX_CHANGES, "changes"), ""]
    if report.rerun:
        header, rows = used_columns(*step_rows(report))
        lines += [*_table(header, rows[:_MAX_STEPS]), *_more(len(rows), _MAX_STEPS, "steps"), ""]
    if report.removed:
        lines += [f"Removed: {', '.join(code_span(step.id) for step in report.removed[:_MAX_STEPS])}", ""]
    kept = [step for step in found.plan.steps if step.id not in {one.step.id for one in report.rerun}]
    if kept:
        lines += [*folded(f"{plural(len(kept), 'unchanged step')}", _unchanged(kept)), ""]
    return "\n".join(lines)


def _headline(found: "RevisionComparison") -> str:
    if found.report.is_empty:
        return "No change"
    if not found.report.rerun:
        return "No step must run again"
    cached = len(found.report.rerun) - len(found.report.pending)
    parts = [
        f"{plural(len(found.report.rerun), 'step')} to run again, {found.report.unchanged_count} unchanged"
    ]
    parts += [f"{cached} of them cached"] if cached else []
    cost = total_estimate(found.report.pending)
    whole = total_estimate(found.plan.steps)
    parts += [f"cost of the change: {code_span(cost)}"] if cost else []
    parts += [f"of the complete recipe: {code_span(whole)}"] if whole and whole != cost else []
    return "; ".join(parts)


def _unchanged(steps: "Sequence[Step]") -> Iterator[str]:
    yield ", ".join(code_span(step.id) for step in steps[:_MAX_STEPS])
    yield from _more(len(steps), _MAX_STEPS, "steps")


def plan_markdown(file: Path, plan: "Plan", prospects: "Mapping[str, StepForecast]") -> str:
    """The steps of a plan, without a comparison."""
    pending = [step for step in plan.steps if prospects[step.id].state in PENDING_STATES]
    rows = [
        (
            step.id,
            step.kind,
            prospects[step.id].state,
            *estimate_cells(step.estimate if step in pending else None),
            prospects[step.id].reason,
        )
        for step in plan.steps
    ]
    header, shown = used_columns(("step", "kind", "state", "time", "memory", "cost", "why"), rows)
    cost = total_estimate(pending)
    headline = f"{plural(len(pending), 'step')} to run" + (f": {code_span(cost)}" if cost else "")
    lines = [
        f"### {code_span(display_path(file))}",
        "",
        f"**{headline if pending else 'Nothing to run'}**",
        "",
    ]
    lines += [*_table(header, shown[:_MAX_STEPS]), *_more(len(shown), _MAX_STEPS, "steps"), ""]
    return "\n".join(lines)


def errors_markdown(file: Path, diagnostics: "Sequence[Diagnostic]") -> str:
    """The errors of a recipe that does not compile."""
    errors = [one for one in diagnostics if one.severity == "error"]
    lines = [f"### {code_span(display_path(file))}", "", f"**{plural(len(errors), 'error')}**", ""]
    for one in errors[:_MAX_ERRORS]:
        place = f"{one.span.file}:{one.span.line}:{one.span.column}"
        lines.append(f"- {code_span(place)} {one.code} {code_span(one.message)}")
    return "\n".join([*lines, *_more(len(errors), _MAX_ERRORS, "errors"), ""])


def _table(header: Sequence[str], rows: "Iterable[Sequence[str]]") -> Iterator[str]:
    def cell(name: str, text: str) -> str:
        return text if name in _PLAIN_COLUMNS or not text else code_span(text)

    named = ([cell(name, text) for name, text in zip(header, row, strict=True)] for row in rows)
    return table(header, named)


def _more(count: int, most: int, what: str) -> list[str]:
    return ["", f"... and {count - most} more {what}"] if count > most else []

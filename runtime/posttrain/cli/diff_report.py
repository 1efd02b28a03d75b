"""The output of `recipe diff`: the changes, the steps that must run again, and their cost."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.estimate_text import estimate_cells, total_estimate
from posttrain.cli.text_tables import table_lines
from posttrain.compiler.diff.plan_diff import PlanDiff, StepChange
from posttrain.compiler.diff.recipe_diff import recipe_differences
from posttrain.compiler.diff.step_diff import recipe_path
from posttrain.compiler.diff.value_diff import ABSENT, Difference, dotted_path
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.url_passwords import mask_url_passwords

if TYPE_CHECKING:
    from posttrain.runtime.comparison.stage_comparison import StageComparison
    from posttrain.spec.plan import Step


# Parts of a key that are not in the text of a recipe.
_NON_RECIPE_PARTS = ("file", "stack", "version")
_MAX_WIDTH = 60


@dataclass(frozen=True, kw_only=True)
class DiffReport:
    """A comparison of two plans, with the steps that are cached in the home."""

    changes: tuple[Difference, ...]
    rerun: tuple[StepChange, ...]
    removed: "tuple[Step, ...]"
    unchanged_count: int
    cached: frozenset[str]
    # Of two runs: the metrics of each stage. They are no part of the difference of the plans.
    metrics: "tuple[StageComparison, ...] | None" = None

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.rerun or self.removed)

    @property
    def pending(self) -> "list[Step]":
        return [change.step for change in self.rerun if change.step.id not in self.cached]

    @staticmethod
    def from_comparison(
        compared: PlanDiff, old: CompileRequest | None, new: CompileRequest | None, cached: Iterable[str]
    ) -> "DiffReport":
        rerun = tuple(change for change in compared.steps if change.status != "same")
        return DiffReport(
            changes=tuple(plan_changes(compared, old, new)),
            rerun=rerun,
            removed=compared.removed_steps,
            unchanged_count=len(compared.steps) - len(rerun),
            cached=frozenset(cached),
        )


def plan_changes(
    compared: PlanDiff, old: CompileRequest | None = None, new: CompileRequest | None = None
) -> list[Difference]:
    """The changes without duplicates, from the recipe texts if both sides are recipes."""
    found = [
        *compared.plan_differences,
        *(difference for change in compared.steps for difference in change.differences),
    ]
    if old is not None and new is not None:
        outside = [difference for difference in found if difference.path[0] in _NON_RECIPE_PARTS]
        found = [*recipe_differences(old, new), *outside]
    unique = {(d.path, repr(d.old), repr(d.new)): d for d in found}
    return sorted(unique.values(), key=lambda d: [str(part) for part in d.path])


def to_text(report: DiffReport) -> str:
    if report.is_empty and not report.metrics:
        return "no difference\n"
    return "\n\n".join("\n".join(block) for block in _blocks(report) if block) + "\n"


def _blocks(report: DiffReport) -> Iterator[list[str]]:
    if report.changes:
        yield [click.style("changed", bold=True), *(f"  {change_line(change)}" for change in report.changes)]
    if report.rerun:
        yield table_lines(*used_columns(*step_rows(report)))
    if report.removed:
        yield ["removed: " + ", ".join(step.id for step in report.removed)]
    if report.metrics:
        from posttrain.cli.metric_differences import metric_blocks

        yield from metric_blocks(report.metrics)
    yield ["no difference in the recipes"] if report.is_empty else [_summary(report)]


def step_rows(report: DiffReport) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """The header and the rows of the table of the steps to run again."""
    header = ("step", "kind", "state", "time", "memory", "cost", "why")
    return header, [_step_row(change, change.step.id in report.cached) for change in report.rerun]


def used_columns(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """A table without the columns that are empty in all rows."""
    used = [at for at in range(len(header)) if any(row[at] for row in rows)]
    return [header[at] for at in used], [[row[at] for at in used] for row in rows]


def _step_row(change: StepChange, cached: bool) -> tuple[str, ...]:
    estimate = None if cached else change.step.estimate
    return (
        change.step.id,
        change.step.kind,
        "cached" if cached else "run",
        *estimate_cells(estimate),
        _why(change),
    )


def _why(change: StepChange) -> str:
    if change.status == "new":
        return "new"
    if change.status == "downstream":
        return f"{' and '.join(change.changed_inputs)} changed"
    prefix = dotted_path(recipe_path(change.step)) + "."
    names = list(dict.fromkeys(dotted_path(d.path).removeprefix(prefix) for d in change.differences))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _summary(report: DiffReport) -> str:
    if not report.rerun:
        return "no step must run again"
    count = len(report.rerun)
    parts = [f"{count} step{'s' if count != 1 else ''} to run again, {report.unchanged_count} unchanged"]
    cached = count - len(report.pending)
    parts += [f"{cached} of them cached"] if cached else []
    cost = total_estimate(report.pending)
    return ", ".join(parts) + (f"; {cost}" if cost else "")


def change_line(change: Difference) -> str:
    """A change on one line, shortened around the first difference."""
    name, old, new = change_texts(change)
    if old is None or new is None:
        sign, text = ("+", new) if old is None else ("-", old)
        return f"{sign} {name}: {_excerpt(text or '')}"
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    return f"~ {name}: {_excerpt(old, start)} -> {_excerpt(new, start)}"


def change_texts(change: Difference) -> tuple[str, str | None, str | None]:
    """The path of a change, and its values as text without passwords; None for a side without a value."""
    name = (
        f"{change.path[0]} {dotted_path(change.path[1:])}"
        if change.path[0] in _NON_RECIPE_PARTS
        else dotted_path(change.path)
    )
    old, new = (None if value is ABSENT else _text(value) for value in (change.old, change.new))
    return name, old, new


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    text = mask_url_passwords(text)
    return " ".join(text.split())


def _excerpt(text: str, start: int = 0) -> str:
    """At most _MAX_WIDTH characters of a text, around `start`."""
    begin = max(0, start - 20) if len(text) > _MAX_WIDTH else 0
    shown = text[begin : begin + _MAX_WIDTH]
    return ("..." if begin else "") + shown + ("..." if begin + _MAX_WIDTH < len(text) else "")


def to_json(report: DiffReport) -> str:
    """The comparison as JSON. A side without a value at a path has no key. Only two runs have `metrics`."""
    from posttrain.cli.metric_differences import metrics_data

    return (
        json.dumps(
            {
                "same": report.is_empty,
                "changes": [_change_json(change) for change in report.changes],
                "steps": [_step_json(change, report) for change in report.rerun],
                "removed": [step.id for step in report.removed],
                "unchanged_count": report.unchanged_count,
                "cost": {name: _estimate_sum(report.pending, name) for name in ("seconds", "dollars")},
                **({} if report.metrics is None else {"metrics": metrics_data(report.metrics)}),
            },
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


def _change_json(change: Difference) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    return {"path": list(change.path), **{k: _masked(v) for k, v in sides.items() if v is not ABSENT}}


def _masked(value: Any) -> Any:
    """A JSON value without the passwords in URLs."""
    return json.loads(mask_url_passwords(json.dumps(value)))


def _step_json(change: StepChange, report: DiffReport) -> dict[str, Any]:
    return {
        "id": change.step.id,
        "kind": change.step.kind,
        "why": change.status,
        "differences": [_change_json(difference) for difference in change.differences],
        "changed_inputs": list(change.changed_inputs),
        "cached": change.step.id in report.cached,
        "estimate": change.step.estimate,
    }


def _estimate_sum(steps: "Iterable[Step]", name: str) -> float | None:
    """The sum over the steps with an estimate; None if no step has one."""
    known = [step.estimate[name] for step in steps if step.estimate and step.estimate.get(name) is not None]
    return sum(known) if known else None

"""What `recipe diff` prints: the changes, the steps that they make anew, and what those cost."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from posttrain.cli.estimate_text import estimate_cells, total_estimate
from posttrain.cli.text_tables import table_lines
from posttrain.compiler.diff.plan_diff import PlanDiff, StepChange
from posttrain.compiler.diff.recipe_diff import recipe_differences
from posttrain.compiler.diff.step_diff import recipe_path
from posttrain.compiler.diff.value_diff import ABSENT, Difference, dotted_path
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.plan import Step

# What is not in the text of a recipe, and yet goes into a product.
_NON_RECIPE_PARTS = ("file", "stack", "version")
_MAX_WIDTH = 60


@dataclass(frozen=True, kw_only=True)
class DiffReport:
    """A comparison, with what stands in the home."""

    changes: tuple[Difference, ...]
    rerun: tuple[StepChange, ...]
    removed: tuple[Step, ...]
    unchanged_count: int
    cached: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.rerun or self.removed)

    @property
    def pending(self) -> list[Step]:
        return [change.step for change in self.rerun if change.step.id not in self.cached]

    @staticmethod
    def from_comparison(
        compared: PlanDiff, old: CompileRequest | None, new: CompileRequest | None, cached: Iterable[str]
    ) -> "DiffReport":
        anew = tuple(change for change in compared.steps if change.status != "same")
        return DiffReport(
            changes=tuple(_changes(compared, old, new)),
            rerun=anew,
            removed=compared.removed_steps,
            unchanged_count=len(compared.steps) - len(anew),
            cached=frozenset(cached),
        )


def _changes(compared: PlanDiff, old: CompileRequest | None, new: CompileRequest | None) -> list[Difference]:
    """What was changed, each once: by the recipes' own text where both sides have one."""
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
    if report.is_empty:
        return "no difference\n"
    return "\n\n".join("\n".join(block) for block in _blocks(report) if block) + "\n"


def _blocks(report: DiffReport) -> Iterator[list[str]]:
    if report.changes:
        yield [click.style("changed", bold=True), *(f"  {_change_line(change)}" for change in report.changes)]
    if report.rerun:
        rows = [_step_row(change, change.step.id in report.cached) for change in report.rerun]
        header = ("step", "kind", "state", "time", "memory", "cost", "why")
        used = [at for at in range(len(header)) if any(row[at] for row in rows)]
        yield table_lines([header[at] for at in used], [[row[at] for at in used] for row in rows])
    if report.removed:
        yield ["no longer there: " + ", ".join(step.id for step in report.removed)]
    yield [_summary(report)]


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
    own = dotted_path(recipe_path(change.step)) + "."
    names = list(dict.fromkeys(dotted_path(d.path).removeprefix(own) for d in change.differences))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _summary(report: DiffReport) -> str:
    if not report.rerun:
        return "no step is made anew"
    count = len(report.rerun)
    said = [f"{count} step{'s' if count != 1 else ''} made anew, {report.unchanged_count} untouched"]
    cached = count - len(report.pending)
    said += [f"{cached} of them cached"] if cached else []
    cost = total_estimate(report.pending)
    return ", ".join(said) + (f"; {cost}" if cost else "")


def _change_line(change: Difference) -> str:
    name = (
        f"{change.path[0]} {dotted_path(change.path[1:])}"
        if change.path[0] in _NON_RECIPE_PARTS
        else dotted_path(change.path)
    )
    if change.old is ABSENT:
        return f"+ {name}: {_excerpt(_text(change.new))}"
    if change.new is ABSENT:
        return f"- {name}: {_excerpt(_text(change.old))}"
    old, new = _text(change.old), _text(change.new)
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    return f"~ {name}: {_excerpt(old, start)} -> {_excerpt(new, start)}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())


def _excerpt(text: str, start: int = 0) -> str:
    """As much of a text as fits, from a little before the place that matters."""
    begin = max(0, start - 20) if len(text) > _MAX_WIDTH else 0
    shown = text[begin : begin + _MAX_WIDTH]
    return ("..." if begin else "") + shown + ("..." if begin + _MAX_WIDTH < len(text) else "")


def to_json(report: DiffReport) -> str:
    """The same for programs. A side that has nothing at a path has no key."""
    return (
        json.dumps(
            {
                "same": report.is_empty,
                "changes": [_change_json(change) for change in report.changes],
                "steps": [_step_json(change, report) for change in report.rerun],
                "gone": [step.id for step in report.removed],
                "untouched": report.unchanged_count,
                "cost": {name: _estimate_sum(report.pending, name) for name in ("seconds", "dollars")},
            },
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


def _change_json(change: Difference) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    return {"path": list(change.path), **{k: v for k, v in sides.items() if v is not ABSENT}}


def _step_json(change: StepChange, report: DiffReport) -> dict[str, Any]:
    return {
        "id": change.step.id,
        "kind": change.step.kind,
        "why": change.status,
        "own": [_change_json(difference) for difference in change.differences],
        "through": list(change.changed_inputs),
        "cached": change.step.id in report.cached,
        "estimate": change.step.estimate,
    }


def _estimate_sum(steps: Iterable[Step], name: str) -> float | None:
    """What is known of several steps together; None when nothing is."""
    known = [step.estimate[name] for step in steps if step.estimate and step.estimate.get(name) is not None]
    return sum(known) if known else None

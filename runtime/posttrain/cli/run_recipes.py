"""Compares the recipes of several runs with that of the first one, by their plans."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.cli.diff_report import change_texts, plan_changes
from posttrain.compiler.diff.plan_diff import compare_plans
from posttrain.runtime.comparison.compared_run import run_mark
from posttrain.runtime.comparison.recipe_differences import DifferingPath, RecipeDifferences
from posttrain.runtime.inspection.run_lookup import UnknownName, read_plan

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan


def compare_run_recipes(runs: Sequence[Path]) -> RecipeDifferences:
    """The paths at which a recipe differs from the first. Runs without a readable plan become notes."""
    notes: list[str] = []
    plans: list[Plan | None] = []
    for place, run in enumerate(runs):
        try:
            plans.append(read_plan(run))
        except UnknownName as error:
            plans.append(None)
            notes.append(f"{run_mark(place)}: {error}")
    base = plans[0]
    if base is None:
        return RecipeDifferences(paths=(), notes=tuple(notes))
    changes = [{} if plan is None else _changes(base, plan) for plan in plans]
    paths = sorted({path for found in changes for path in found})
    return RecipeDifferences(
        paths=tuple(DifferingPath(path=path, values=_values(path, changes)) for path in paths),
        notes=tuple(notes),
    )


def _changes(base: "Plan", plan: "Plan") -> dict[str, tuple[str | None, str | None]]:
    """The old and the new value at each path. Legs of a matrix can have several values at a path."""
    sides: dict[str, tuple[list[str], list[str]]] = {}
    for change in plan_changes(compare_plans(base, plan)):
        path, old, new = change_texts(change)
        for side, value in zip(sides.setdefault(path, ([], [])), (old, new), strict=True):
            if value is not None and value not in side:
                side.append(value)
    return {path: (_join(old), _join(new)) for path, (old, new) in sides.items()}


def _join(values: Sequence[str]) -> str | None:
    return " | ".join(values) if values else None


def _values(path: str, changes: Sequence[dict[str, tuple[str | None, str | None]]]) -> tuple[str | None, ...]:
    """The value of each run. A run without a change has that of the first."""
    first = next(found[path][0] for found in changes if path in found)
    return tuple(found[path][1] if path in found else first for found in changes)

"""Reads the few fields of a run's plan that find a step, without pydantic, whose import takes longer."""

import json
from pathlib import Path
from typing import Any

from posttrain.runtime.store.document_files import read_limited
from posttrain.spec.record import record


@record(kw_only=True)
class StepOutline:
    id: str
    key: str
    pinned: bool


@record(kw_only=True)
class PlanOutline:
    name: str
    steps: tuple[StepOutline, ...]

    def find_step(self, id: str) -> StepOutline | None:
        return next((step for step in self.steps if step.id == id), None)


def read_plan_outline(run: Path) -> PlanOutline | None:
    """The outline of a run's plan; None when it is not readable. Commands that run steps read all of it."""
    try:
        plan = json.loads(read_limited(run / "plan.json").decode())
        steps = tuple(_outline_step(step) for step in plan["steps"])
        return PlanOutline(name=_text(plan["name"]), steps=steps)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _outline_step(step: Any) -> StepOutline:
    return StepOutline(id=_text(step["id"]), key=_text(step["key"]), pinned=step["pinned"] is True)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return value

"""What a run of a plan would do: for each step cached, resumable or to run, and why."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.checkpoints import latest_step
from posttrain.runtime.home import Home
from posttrain.runtime.runs import last_plan
from posttrain.spec.plan import Plan, Step


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What is to be expected of a step: `cached`, `resume` or `run`, and the reason."""

    state: str
    reason: str


def outlook(plan: Plan, home: Home) -> dict[str, Prospect]:
    """The prospect of every step, by id."""
    earlier = last_plan(home, plan.name)
    before = {step.id: step for step in earlier.steps} if earlier else {}
    found: dict[str, Prospect] = {}
    for step in plan.steps:
        found[step.id] = _prospect(step, before.get(step.id), home, found)
    return found


def _prospect(step: Step, before: Step | None, home: Home, others: Mapping[str, Prospect]) -> Prospect:
    if step.pinned and home.store.find(step.key) is not None:
        return Prospect(state="cached", reason="finished before")
    why = why_changed(step, before)
    if step.pinned and (at := latest_step(home.work(step.key) / "checkpoints")) is not None:
        return Prospect(state="resume", reason=f"goes on from step {at}")
    if not step.pinned:
        why = "what goes in is not pinned to a revision"
    return Prospect(state="run", reason=why)


def why_changed(step: Step, before: Step | None) -> str:
    """Which part of the key is not what it was in the last run."""
    if before is None:
        return "never run"
    if before.key == step.key:
        return "not finished"
    names = sorted(
        name
        for name in {*step.key_parts, *before.key_parts}
        if step.key_parts.get(name) != before.key_parts.get(name)
    )
    own = [name for name in names if not name.startswith("input.")]
    if own:
        return "; ".join(_change(name, before.key_values, step.key_values) for name in own[:3])
    inputs = [step.inputs[n[6:]].step for n in names if n.startswith("input.") and n[6:] in step.inputs]
    return f"{' and '.join(dict.fromkeys(inputs)) or 'its inputs'} changed"


def _change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    was, now = before.get(name), after.get(name)
    name = name.removeprefix("params.")  # as the recipe writes it
    if isinstance(was, dict) and isinstance(now, dict):
        keys = sorted(k for k in {*was, *now} if was.get(k) != now.get(k))
        return ", ".join(f"{name}.{k}: {_shown(was.get(k))} -> {_shown(now.get(k))}" for k in keys[:3])
    return f"{name}: {_shown(was)} -> {_shown(now)}"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 32 else text[:29] + "..."

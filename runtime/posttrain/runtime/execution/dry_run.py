"""Forecasts a run of a plan: whether each step is cached, resumes or runs, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from posttrain.runtime.execution.selection import Selection
from posttrain.runtime.store.checkpoints import latest_step
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.key_diff import describe_change
from posttrain.runtime.store.launch_record import cache_note
from posttrain.runtime.store.runs import last_plan

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step


@dataclass(frozen=True, kw_only=True)
class StepForecast:
    """The forecast of a step: `cached`, `resume`, `run` or `skipped`, and the reason."""

    state: str
    reason: str
    # Whether `recipe adopt` accepts an older product.
    adoptable: bool = False


def forecast_plan(
    plan: "Plan",
    home: Home,
    selection: Selection | None = None,
    fetched: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, StepForecast]:
    """The forecast of every step, by id; `skipped` for steps outside the selection. `fetched` has the keys of
    products that a run would fetch from a cache, each with a note."""
    earlier = last_plan(home, plan.name)
    before = {step.id: step for step in earlier.steps} if earlier else {}
    found: dict[str, StepForecast] = {}
    for step in plan.steps:
        if selection is not None and step.id not in selection.steps:
            reason = "excluded with --skip" if step.id in selection.skipped else "not selected"
            found[step.id] = StepForecast(state="skipped", reason=reason)
        elif step.key in fetched:
            found[step.id] = StepForecast(state="cached", reason=fetched[step.key])
        else:
            found[step.id] = _forecast_step(step, before.get(step.id), home, found)
    return found


def _forecast_step(
    step: "Step", before: "Step | None", home: Home, others: Mapping[str, StepForecast]
) -> StepForecast:
    product = home.store.find(step.key) if step.pinned else None
    if product is not None:
        return StepForecast(state="cached", reason=cache_note(product, step) or "finished in an earlier run")
    error = home.store.manifest_error(step.key) if step.pinned else None
    why = f"its product is not usable: {error.full_text}" if error else change_reason(step, before)
    if step.pinned and (at := latest_step(home.workdir(step.key) / "checkpoints")) is not None:
        return StepForecast(state="resume", reason=f"resumes from step {at}")
    if not step.pinned:
        why = "an input is not pinned to a revision"
    elif before is not None and _is_adoptable(step, before, home, others):
        return StepForecast(state="run", reason=f"{why}; or `recipe adopt {step.id}`", adoptable=True)
    return StepForecast(state="run", reason=why)


def _is_adoptable(step: "Step", before: "Step", home: Home, others: Mapping[str, StepForecast]) -> bool:
    """Whether the last product of a step differs from its key in the environment only."""
    changed = [n for n in step.key_parts if step.key_parts[n] != before.key_parts.get(n)]
    if "environment" not in changed and "extensions" not in changed:
        return False
    product = home.store.find(before.key)
    if product is None:
        return False
    from posttrain.runtime.store.adoption import differing_parts

    _, rest = differing_parts(step, product, home.store)
    # An input that is adoptable itself counts as unchanged.
    roles = [name.removeprefix("input.") for name in rest if name.startswith("input.")]
    return len(roles) == len(rest) and all(
        role in step.inputs and others[step.inputs[role].step].adoptable for role in roles
    )


def change_reason(step: "Step", before: "Step | None") -> str:
    """The parts of the key that changed since the last run, as text."""
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
        return "; ".join(describe_change(name, before.key_values, step.key_values) for name in own[:3])
    inputs = [step.inputs[n[6:]].step for n in names if n.startswith("input.") and n[6:] in step.inputs]
    return f"{' and '.join(dict.fromkeys(inputs)) or 'its inputs'} changed"

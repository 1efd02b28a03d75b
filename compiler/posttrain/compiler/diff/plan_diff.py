"""Compares two plans: for each step of the newer one, whether its product is still valid, and if not, why."""

from collections.abc import Mapping, Sequence
from typing import Literal

from posttrain.compiler.diff.step_diff import step_differences
from posttrain.compiler.diff.value_diff import Difference, value_differences
from posttrain.spec.plan import Plan, Step, StepInput
from posttrain.spec.record import record

# `changed`: the step itself differs; `downstream`: only its inputs are computed again.
StepStatus = Literal["same", "changed", "downstream", "new"]


@record(kw_only=True)
class StepChange:
    """A step of the newer plan and its counterpart in the older plan."""

    step: Step
    before: Step | None
    status: StepStatus
    # The differences of the step itself. With `same`, they do not change the product.
    differences: tuple[Difference, ...] = ()
    # The steps that it reads and that run again.
    changed_inputs: tuple[str, ...] = ()


@record(kw_only=True)
class PlanDiff:
    steps: tuple[StepChange, ...]
    # Steps of the older plan without a counterpart in the newer one.
    removed_steps: tuple[Step, ...] = ()
    # Differences of the plan as a whole: its seed, its target, its trackers.
    plan_differences: tuple[Difference, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the plans are equal."""
        quiet = all(change.status == "same" and not change.differences for change in self.steps)
        return quiet and not self.removed_steps and not self.plan_differences


def compare_plans(before: Plan, after: Plan) -> PlanDiff:
    pairs = _match_steps(before, after)
    keys = {step.key for step in before.steps}
    seeds = before.seed, after.seed
    found: dict[str, StepChange] = {}
    for step in after.steps:
        found[step.id] = _step_change(step, pairs.get(step.id), pairs, seeds, keys, found)
    paired = {step.id for step in pairs.values()}
    return PlanDiff(
        steps=tuple(found.values()),
        removed_steps=tuple(step for step in before.steps if step.id not in paired),
        plan_differences=tuple(_plan_field_differences(before, after)),
    )


def _match_steps(before: Plan, after: Plan) -> Mapping[str, Step]:
    """The older step of each newer one: with the same id, else the same key, else the same stage."""
    by_id = {step.id: step for step in before.steps}
    by_key = {step.key: step for step in before.steps}
    by_name: dict[str, Step] = {}
    for step in before.steps:
        by_name.setdefault(_stage_name(step), step)
    found: dict[str, Step] = {}
    for step in after.steps:
        older = by_id.get(step.id) or by_key.get(step.key) or by_name.get(_stage_name(step))
        if older is not None and older.kind == step.kind:
            found[step.id] = older
    return found


def _stage_name(step: Step) -> str:
    """The id of a step without the leg of the matrix."""
    return step.id.partition("@")[0]


def _step_change(
    step: Step,
    before: Step | None,
    pairs: Mapping[str, Step],
    seeds: tuple[int, int],
    columns: set[str],
    others: Mapping[str, StepChange],
) -> StepChange:
    def same(old: StepInput, new: StepInput) -> bool:
        paired = pairs.get(new.step)
        same_rows = (old.part, old.output) == (new.part, new.output)
        return paired is not None and paired.id == old.step and same_rows

    own = tuple(step_differences(before, step, seeds, same)) if before else ()
    changed = [source.step for source in step.inputs.values() if others[source.step].status != "same"]
    return StepChange(
        step=step,
        before=before,
        status=_step_status(step, before, columns),
        differences=own,
        changed_inputs=tuple(dict.fromkeys(changed)),
    )


def _step_status(step: Step, before: Step | None, columns: set[str]) -> StepStatus:
    if step.key in columns:
        return "same"
    if before is None:
        return "new"
    parts = {*step.key_parts, *before.key_parts}
    differing = {name for name in parts if step.key_parts.get(name) != before.key_parts.get(name)}
    own = any(not name.startswith("input.") for name in differing) or _inputs_changed(step, before)
    return "changed" if own else "downstream"


def _inputs_changed(step: Step, before: Step) -> bool:
    """Whether the step reads other steps or parts than before."""
    return _input_sources(step) != _input_sources(before)


def _input_sources(step: Step) -> Sequence[tuple[str | None, ...]]:
    inputs = sorted(step.inputs.items())
    return [(role, given.step.partition("@")[0], given.part, given.output) for role, given in inputs]


def _plan_field_differences(before: Plan, after: Plan) -> list[Difference]:
    """The differences of the plan's own fields, at their paths in the recipe."""
    fields = {
        "name": (before.name, after.name),
        "description": (before.description, after.description),
        "seed": (before.seed, after.seed),
        "hardware": (before.target, after.target),
        "tracking": (list(before.tracking), list(after.tracking)),
    }
    return [d for name, (old, new) in fields.items() for d in value_differences(old, new, (name,))]

"""Two plans side by side: for each step of the newer one, whether its product stands, and if not, why."""

from collections.abc import Mapping, Sequence
from typing import Literal

from posttrain.compiler.differences.parts import step_differences
from posttrain.compiler.differences.values import Difference, value_differences
from posttrain.spec.plan import Input, Plan, Step
from posttrain.spec.record import record

# `changed`: what the step itself says differs; `downstream`: only what it reads is made anew.
Fate = Literal["same", "changed", "downstream", "new"]


@record(kw_only=True)
class StepChange:
    """A step of the newer plan, beside the one that it was."""

    step: Step
    before: Step | None
    fate: Fate
    # What the step itself says differently. With `same`, none of it touches the product.
    own: tuple[Difference, ...] = ()
    # The steps that it reads and that are made anew.
    through: tuple[str, ...] = ()


@record(kw_only=True)
class Comparison:
    steps: tuple[StepChange, ...]
    # Steps of the older plan that the newer one has no more.
    gone: tuple[Step, ...] = ()
    # What concerns the plan as a whole: its seed, its target, its trackers.
    whole: tuple[Difference, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing at all differs."""
        quiet = all(change.fate == "same" and not change.own for change in self.steps)
        return quiet and not self.gone and not self.whole


def compare(before: Plan, after: Plan) -> Comparison:
    pairs = _pairs(before, after)
    made = {step.key for step in before.steps}
    seeds = before.seed, after.seed
    found: dict[str, StepChange] = {}
    for step in after.steps:
        found[step.id] = _change(step, pairs.get(step.id), pairs, seeds, made, found)
    kept = {step.id for step in pairs.values()}
    return Comparison(
        steps=tuple(found.values()),
        gone=tuple(step for step in before.steps if step.id not in kept),
        whole=tuple(_whole(before, after)),
    )


def _pairs(before: Plan, after: Plan) -> Mapping[str, Step]:
    """The older step of each newer one: of the same id, else of the same key, else of the same stage."""
    by_id = {step.id: step for step in before.steps}
    by_key = {step.key: step for step in before.steps}
    by_name: dict[str, Step] = {}
    for step in before.steps:
        by_name.setdefault(_name(step), step)
    found: dict[str, Step] = {}
    for step in after.steps:
        older = by_id.get(step.id) or by_key.get(step.key) or by_name.get(_name(step))
        if older is not None and older.kind == step.kind:
            found[step.id] = older
    return found


def _name(step: Step) -> str:
    """Its name without the leg of the matrix."""
    return step.id.partition("@")[0]


def _change(
    step: Step,
    before: Step | None,
    pairs: Mapping[str, Step],
    seeds: tuple[int, int],
    made: set[str],
    others: Mapping[str, StepChange],
) -> StepChange:
    def same(old: Input, new: Input) -> bool:
        paired = pairs.get(new.step)
        return paired is not None and paired.id == old.step and old.part == new.part

    own = tuple(step_differences(before, step, seeds, same)) if before else ()
    anew = [given.step for given in step.inputs.values() if others[given.step].fate != "same"]
    return StepChange(
        step=step,
        before=before,
        fate=_fate(step, before, made),
        own=own,
        through=tuple(dict.fromkeys(anew)),
    )


def _fate(step: Step, before: Step | None, made: set[str]) -> Fate:
    if step.key in made:
        return "same"
    if before is None:
        return "new"
    parts = {*step.key_parts, *before.key_parts}
    differing = {name for name in parts if step.key_parts.get(name) != before.key_parts.get(name)}
    own = any(not name.startswith("input.") for name in differing) or _reads_otherwise(step, before)
    return "changed" if own else "downstream"


def _reads_otherwise(step: Step, before: Step) -> bool:
    """Whether it reads other things than before, not only other products of the same."""
    return _read(step) != _read(before)


def _read(step: Step) -> Sequence[tuple[str, str, str | None]]:
    inputs = sorted(step.inputs.items())
    return [(role, given.step.partition("@")[0], given.part) for role, given in inputs]


def _whole(before: Plan, after: Plan) -> list[Difference]:
    """The plan's own fields; the target's stand where the recipe has them."""
    fields = {
        "name": (before.name, after.name),
        "description": (before.description, after.description),
        "seed": (before.seed, after.seed),
        "hardware": (before.target, after.target),
        "tracking": (list(before.tracking), list(after.tracking)),
    }
    return [d for name, (old, new) in fields.items() for d in value_differences(old, new, (name,))]

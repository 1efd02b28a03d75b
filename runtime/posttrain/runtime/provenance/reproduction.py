"""Compares the steps of two executions of a recipe, and names the first that differs, and why."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from posttrain.runtime.provenance.retarget_plan import planned_versions
from posttrain.runtime.provenance.step_provenance import StepRecord
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Step
    from posttrain.spec.product_manifest import LaunchRecord

Outcome = Literal["equal", "different", "not published", "not run"]
_MAX_FILES = 3


@record(kw_only=True)
class StepComparison:
    """One step of the published and of the repeated execution."""

    id: str
    outcome: Outcome
    # The recorded differences that can be the reason.
    reasons: tuple[str, ...] = ()
    # The files that differ, if the published execution lists them.
    files: tuple[str, ...] = ()


def compare_steps(
    steps: "Iterable[Step]",
    published: Mapping[str, StepRecord],
    repeated: Mapping[str, StepRecord],
    stack: Mapping[str, str],
) -> list[StepComparison]:
    """The comparison of each step, in the order of the plan. `steps` are those of the published plan, and
    `stack` the versions of the libraries of the repeated execution."""
    return [_compare(step, published.get(step.id), repeated.get(step.id), stack) for step in steps]


def _compare(
    step: "Step", old: StepRecord | None, new: StepRecord | None, stack: Mapping[str, str]
) -> StepComparison:
    reasons = tuple(_reasons(step, old, new, stack))
    if new is None:
        return StepComparison(id=step.id, outcome="not run", reasons=reasons)
    if old is None or old.contents is None:
        return StepComparison(id=step.id, outcome="not published", reasons=reasons)
    if old.contents == new.contents:
        return StepComparison(id=step.id, outcome="equal", reasons=reasons)
    files = tuple(_different_files(old, new))
    return StepComparison(id=step.id, outcome="different", reasons=reasons, files=files)


def first_difference(compared: Iterable[StepComparison]) -> StepComparison | None:
    return next((one for one in compared if one.outcome == "different"), None)


def _reasons(
    step: "Step", old: StepRecord | None, new: StepRecord | None, stack: Mapping[str, str]
) -> Iterator[str]:
    """The differences of launch, stack and hardware, as text."""
    for name, version in planned_versions(step).items():
        if name in stack and stack[name] != version:
            yield f"stack: {name} {version} -> {stack[name]}"
    if old is None or new is None:
        return
    if old.launch is not None and new.launch is not None and old.launch != new.launch:
        yield f"launch: {_launch_text(old.launch, new.launch)}"
    if old.hardware is None or new.hardware is None:
        yield "hardware: not recorded"
        return
    for name in sorted({*old.hardware, *new.hardware}):
        was, now = old.hardware.get(name, "none"), new.hardware.get(name, "none")
        if was != now:
            yield f"hardware: {name} {was} -> {now}"


def _launch_text(old: "LaunchRecord", new: "LaunchRecord") -> str:
    before, after = old.model_dump(), new.model_dump()
    changed = [name for name in before if before[name] != after[name]]
    return ", ".join(f"{name} {before[name]} -> {after[name]}" for name in changed)


def _different_files(old: StepRecord, new: StepRecord) -> list[str]:
    if old.files is None or new.files is None:
        return []
    names = sorted({*old.files, *new.files})
    return [name for name in names if old.files.get(name) != new.files.get(name)]


def describe_comparison(one: StepComparison) -> str:
    """Why a step differs, as text."""
    more = f" and {len(one.files) - _MAX_FILES} more" if len(one.files) > _MAX_FILES else ""
    files = [f"files: {', '.join(one.files[:_MAX_FILES])}{more}"] if one.files else []
    unexplained = "launch, stack and hardware are equal: the step is not deterministic"
    return "; ".join([*files, *(one.reasons or (unexplained,))])

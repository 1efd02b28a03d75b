"""Adopts older products for the stages of a plan, and records the adoptions as a run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from posttrain.runtime.execution.selection import SelectionOptions, select_steps
from posttrain.runtime.store.adoption import AdoptionError, adopt, find_adoptable
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import finish_run, new_run
from posttrain.spec.document_json import NewerFormatError
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record


@record
class StepAdoption:
    """What happened to a step. `unnecessary`: its product already exists."""

    step: str
    outcome: Literal["adopted", "unnecessary", "refused"]
    # The note of the adopted product, or the reason of the refusal.
    reason: str = ""


def adopt_stages(
    plan: Plan, home: Home, stages: Sequence[str], because: str, recipe: Path
) -> list[StepAdoption]:
    """Adopt an older product for each step of the stages, where only the environment differs.

    Raises `SelectionError` for a name that the plan does not have.
    """
    adoptions = [_try_adopt(home, step, because) for step in _named_steps(plan, stages)]
    notes = {one.step: one.reason for one in adoptions if one.outcome == "adopted"}
    if notes:
        _record_adoptions(home, plan, recipe, notes)
    return adoptions


def _named_steps(plan: Plan, stages: Sequence[str]) -> Iterator[Step]:
    """The named steps in the order of the plan, so that inputs are adopted before their users."""
    chosen = select_steps(plan, SelectionOptions(only=stages)).steps
    for step in plan.steps:
        if step.id in chosen and (step.id in stages or step.id.partition("@")[0] in stages):
            yield step


def _try_adopt(home: Home, step: Step, because: str) -> StepAdoption:
    if step.pinned and home.store.find(step.key) is not None:
        return StepAdoption(step.id, "unnecessary")
    try:
        return StepAdoption(step.id, "adopted", _adopt(home, step, because))
    except AdoptionError as error:
        return StepAdoption(step.id, "refused", str(error))


def _adopt(home: Home, step: Step, because: str) -> str:
    """Adopt a product for one step; return the note of the product."""
    if not step.pinned:
        raise AdoptionError("its inputs are not pinned, so no older product is comparable")
    error = home.store.manifest_error(step.key)
    if isinstance(error, NewerFormatError):
        raise AdoptionError(error.full_text)
    lock = try_lock(home.step_lock(step.key))
    if lock is None:
        raise AdoptionError("a run is executing it")
    try:
        return adopt(home, step, find_adoptable(step, home.store), because).adoption_note
    finally:
        lock.release()


def _record_adoptions(home: Home, plan: Plan, recipe: Path, notes: dict[str, str]) -> None:
    """Record a run that executed no step and names the adopted products."""
    folder = new_run(home, plan, recipe.absolute())
    journal = Journal(folder / "journal.sqlite")
    states = {step.id: "cached" if step.id in notes else "skipped" for step in plan.steps}
    for id, state in states.items():
        journal.update_step(id, state, reason=notes.get(id, "not selected"))
    finish_run(journal, states)
    journal.close()

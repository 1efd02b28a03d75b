"""Reads a run with its products, to compare it with another execution."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.inspection.run_lookup import UnknownName, read_plan
from posttrain.runtime.provenance.step_provenance import StepRecord, step_record
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import find_step_product
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan


@record(kw_only=True)
class RecordedRun:
    plan: "Plan"
    # The file of the recipe; its folder has the user's files.
    recipe: Path
    # The finished steps, by id.
    steps: Mapping[str, StepRecord]


def read_recorded_run(home: Home, run: Path) -> RecordedRun:
    """A run with the products that the home still has. Raises `UnknownName`."""
    plan = read_plan(run)
    journal = Journal(run / "journal.sqlite", read=True)
    try:
        recipe = journal.get("recipe")
    finally:
        journal.close()
    if not isinstance(recipe, str):
        raise UnknownName(f"the run {run.name} does not record its recipe")
    found = {step.id: (step, find_step_product(home, run, step.id)) for step in plan.steps}
    steps = {id: step_record(step, product) for id, (step, product) in found.items() if product is not None}
    return RecordedRun(plan=plan, recipe=Path(recipe), steps=steps)

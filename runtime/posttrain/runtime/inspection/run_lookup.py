"""Finds the runs, steps and products that a user names."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.store import runs
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.integrity import IntegrityChecker
from posttrain.runtime.store.run_labels import read_labels
from posttrain.runtime.store.runs import find_step_key, last_run, list_run_folders, list_runs, step_ids
from posttrain.spec.document_json import DocumentError
from posttrain.spec.suggestions import hint

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step


class UnknownName(Exception):
    """A name that no run, or no step of the run, has."""


def find_run(home: Home, name: str | None) -> Path:
    """The run whose name starts with `name`, or that a user named so; without a name, the newest run."""
    if name is None:
        found = last_run(home)
        folders = list_run_folders(home)
        if found is None and folders:
            cause = f"the plan of the run {folders[-1].name} in {home.root} is missing or damaged"
            raise UnknownName(
                f"{cause}; `recipe verify` shows more, and `recipe run` goes on from the products"
            )
        if found is None:
            raise UnknownName(f"no runs in {home.root}; start one with `recipe run PATH`, or set --home")
        return found
    runs = list_runs(home)
    matching = [folder for folder in runs if folder.name.startswith(name)]
    matching = matching or [folder for folder in runs if read_labels(folder).name == name]
    if not matching:
        raise UnknownName(f"no run in {home.root} has a name that starts with `{name}`")
    if len(matching) > 1:
        some = ", ".join(folder.name for folder in matching[-3:])
        raise UnknownName(
            f"more than one run in {home.root} has a name that starts with `{name}`, such as {some}"
        )
    return matching[0]


class DamagedProduct(Exception):
    """The product of a step, or one that it depends on, does not match its digests."""


def find_product(home: Home, run: Path, id: str) -> Path | None:
    """The files of the product of a step, which match their digests; None when the step has not finished."""
    check_step(run, id)
    key = find_step_key(run, id)
    if key is None or not (home.store.root / key).exists():
        return None
    product = home.store.find_outline(key)
    if product is None:
        raise DamagedProduct(f"the product of `{id}` is damaged: its manifest is missing or damaged")
    damage = IntegrityChecker(home.store.find_outline).check(product)
    if damage is not None:
        what = "" if damage.key == key else f"the product {damage.key[:10]}, on which it depends: "
        raise DamagedProduct(f"the product of `{id}` is damaged: {what}{damage.reason}")
    return product.files


def check_step(run: Path, id: str) -> None:
    """Raise `UnknownName` when the run has no step with this id."""
    _check_known(run, id, step_ids(run), "step")


def find_training_step(run: Path, id: str) -> "Step":
    """A training step of the plan of a run."""
    plan = read_plan(run)
    _check_known(run, id, [step.id for step in plan.steps if step.kind == "train"], "training stage")
    return plan.step(id)


def read_plan(run: Path) -> "Plan":
    """The plan of a run, complete and in order."""
    from posttrain.spec.plan import checked_order

    try:
        return checked_order(runs.read_plan(run))
    except DocumentError as error:
        raise UnknownName(f"the run {run.name} has no readable plan: {error}") from None


def _check_known(run: Path, id: str, known: Sequence[str], what: str) -> None:
    if id not in known:
        raise UnknownName(f"the run {run.name} has no {what} `{id}`; {hint(id, known, what=f'{what}s')[0]}")

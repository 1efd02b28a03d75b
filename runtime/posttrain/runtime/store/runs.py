"""Manages the runs of a home: each is a folder with the plan and the journal."""

import calendar
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime import atomic_io
from posttrain.runtime.store.document_files import read_document
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.plan_outline import StepOutline, read_plan_outline
from posttrain.runtime.store.product_outline import ProductOutline
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.run_labels import RunLabels, write_labels
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.document_json import DocumentError
from posttrain.spec.keys import digest

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step


def run_key(step: "Step | StepOutline", run: str) -> str:
    """The key of the product of a step; private to the run when the step is not pinned."""
    return step.key if step.pinned else digest([step.key, run])


def new_run(home: Home, plan: "Plan", recipe: Path, labels: RunLabels | None = None) -> Path:
    """Create the folder of a new run, with its plan, its journal and its labels."""
    home.prepare()
    _remove_leftovers(home)
    folder = _new_folder(home, plan.name)
    atomic_io.write_text(folder / "plan.json", canonical_json(plan) + "\n")
    journal = Journal(folder / "journal.sqlite")
    journal.set("plan", plan_digest(folder))
    journal.add_steps([(step.id, run_key(step, folder.name), step.estimate or {}) for step in plan.steps])
    journal.set("recipe", str(recipe))
    journal.set("began", time.time())
    journal.set("pid", os.getpid())
    journal.close()
    if labels is not None and not labels.is_empty:
        write_labels(folder, labels)
    return folder


def _remove_leftovers(home: Home) -> None:
    """Remove the leftovers of killed clients: free locks, and the working directories of steps that are
    in the store already."""
    for path in home.workdir("any").parent.iterdir():
        if path.suffix == ".lock":
            lock = try_lock(path)
        elif home.store.find(path.name) is not None:
            lock = try_lock(home.step_lock(path.name))
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
        else:
            continue
        if lock is not None:
            lock.discard()


_TIMESTAMP_FORMAT = "%Y%m%d-%H%M%S"
_TIMESTAMP_PATTERN = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)-")


def _new_folder(home: Home, name: str) -> Path:
    """A folder whose name sorts after those of all earlier runs, even when the clock went back."""
    at = time.time()
    while True:
        at = max(
            [at, *(seconds + 1 for path in home.runs.iterdir() if (seconds := _parse_timestamp(path.name)))]
        )
        folder = home.runs / f"{time.strftime(_TIMESTAMP_FORMAT, time.gmtime(at))}-{name}"
        try:
            folder.mkdir()
        except FileExistsError:  # another client was faster
            continue
        return folder


def _parse_timestamp(name: str) -> int | None:
    """The timestamp in the name of a run."""
    found = _TIMESTAMP_PATTERN.match(name)
    return calendar.timegm((*map(int, found.groups()), 0, 0, 0)) if found else None


def recipe_of_run(name: str) -> str:
    """The name of the recipe in the name of a run."""
    found = _TIMESTAMP_PATTERN.match(name)
    return name[found.end() :] if found else name


def list_runs(home: Home) -> list[Path]:
    """All runs, the newest last."""
    return [folder for folder in list_run_folders(home) if (folder / "plan.json").exists()]


def list_run_folders(home: Home) -> list[Path]:
    """The folders of all runs, also of those without a plan, the newest last."""
    if not home.runs.is_dir():
        return []
    return sorted(folder for folder in home.runs.iterdir() if folder.is_dir())


def last_run(home: Home, name: str | None = None) -> Path | None:
    """The newest run, optionally of one recipe."""
    for folder in reversed(list_runs(home)):
        plan = read_plan_outline(folder)
        if plan is not None and name in (None, plan.name):
            return folder
    return None


def last_plan(home: Home, name: str) -> "Plan | None":
    folder = last_run(home, name)
    return load_plan(folder) if folder else None


def finish_run(journal: Journal, states: Mapping[str, str]) -> None:
    """Record the end and the result of a run."""
    journal.set("ended", time.time())
    bad = sorted({state for state in states.values() if state not in ("cached", "done", "skipped")})
    journal.set("result", " and ".join(bad) if bad else "finished")


def step_ids(run: Path) -> list[str]:
    plan = read_plan_outline(run)
    return [step.id for step in plan.steps] if plan else []


def find_step_key(run: Path, id: str) -> str | None:
    """The key of the product of a step in a run."""
    plan = read_plan_outline(run)
    found = plan.find_step(id) if plan else None
    return run_key(found, run.name) if found else None


def find_step_product(home: Home, run: Path, id: str) -> Product | None:
    key = find_step_key(run, id)
    return home.store.find(key) if key else None


def find_step_outline(home: Home, run: Path, id: str) -> ProductOutline | None:
    """The outline of the product of a step, if the product is complete."""
    key = find_step_key(run, id)
    outline = home.store.find_outline(key) if key else None
    return outline if outline is not None and outline.is_complete else None


def find_step_record(home: Home, run: Path, id: str) -> Path | None:
    """The folder with the events and the log of a step: in the store, or in its working directory."""
    outline = find_step_outline(home, run, id)
    if outline is not None:
        return outline.record
    key = find_step_key(run, id)
    work = home.workdir(key) / "record" if key else None
    return work if work is not None and work.exists() else None


def plan_digest(run: Path) -> str:
    """The digest of a run's plan file."""
    return atomic_io.sha256_file(run / "plan.json")


def load_plan(run: Path) -> "Plan | None":
    """The plan of a run; None when it is not readable."""
    try:
        return read_plan(run)
    except DocumentError:
        return None


def read_plan(run: Path) -> "Plan":
    """The plan of a run. Raises `DocumentError`."""
    from posttrain.spec.plan import Plan

    return read_document(Plan, run / "plan.json")

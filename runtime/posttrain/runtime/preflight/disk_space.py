"""Checks that the file system of the home has room for the products and checkpoints of a run.

A run keeps every product. A step also needs its checkpoints, the cache of its training rows, and copies of
the user's files, until its product is committed. The sizes are the estimates of the plan, and those of the
files that the steps read; a product of unknown size counts as empty.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.schedules import data_inputs
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.store.user_files import find_user_file
from posttrain.spec.plan import Step
from posttrain.spec.record import record
from posttrain.spec.step_params.train_params import TrainStepParams

_GB = 1 << 30
_MAX_LISTED = 3
# Bytes of Arrow files, of rows and of token ids, for each byte of compressed Parquet files.
_ROW_CACHE_FACTOR = 12


@record(kw_only=True)
class _Usage:
    """The bytes of a step: of its product, and of what it needs only while it runs."""

    step: Step
    product: float
    checkpoints: float
    input_files: float
    row_cache: float

    @property
    def temporary(self) -> float:
        return self.checkpoints + self.input_files + self.row_cache

    @property
    def total(self) -> float:
        return self.product + self.temporary


def probes(scope: Scope) -> Iterator[Probe]:
    yield lambda: _check_space(scope)


def _check_space(scope: Scope) -> list[Finding]:
    usages = [_step_usage(step, scope) for step in scope.steps]
    # Only the largest training counts: with the others it shares the memory of the machine.
    needed = sum(one.product for one in usages) + max(one.temporary for one in usages)
    place = scope.home.root.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed <= free:
        return []
    largest = sorted(usages, key=lambda one: -one.total)
    shares = [one for one in largest[:_MAX_LISTED] if one.total >= needed / 100]
    listed = ", ".join(_describe(one, needed / 100) for one in shares)
    space = f"the run needs about {_size(needed)} of disk space in {place}, and {_size(free)} is free"
    cause = f"{space}: {listed}"
    return [error("disk", largest[0].step, cause, _advice(largest[0].step))]


def _step_usage(step: Step, scope: Scope) -> _Usage:
    estimate = step.estimate or {}
    files = sum(_file_size(find_user_file(scope.recipe_dir, file)) for file in step.files.values())
    # Without an estimate: datasets and models from files have about their size.
    product, checkpoints = estimate.get("disk_gb"), estimate.get("checkpoints_gb")
    trained = checkpoints * _GB if isinstance(checkpoints, int | float) else 0
    return _Usage(
        step=step,
        product=product * _GB if isinstance(product, int | float) else files,
        # An interrupted attempt has written some of them already.
        checkpoints=max(0, trained - _folder_size(scope.home.workdir(step.key) / "checkpoints")),
        input_files=files,
        row_cache=_row_cache_size(step, scope),
    )


def _row_cache_size(step: Step, scope: Scope) -> float:
    """The bytes that the cache still grows by, for the rows of a training whose datasets are built."""
    if step.kind != "train":
        return 0
    keys = {one.id: one.key for one in scope.plan.steps}
    folders = {scope.home.store.root / keys[given.step] / "files" for given in data_inputs(step).values()}
    rows = sum(_file_size(path) for folder in folders for path in folder.glob("*.parquet"))
    return max(0, _ROW_CACHE_FACTOR * rows - _folder_size(scope.home.row_cache))


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _folder_size(folder: Path) -> int:
    return sum(_file_size(path) for path in folder.rglob("*") if path.is_file())


def _describe(usage: _Usage, least: float) -> str:
    """The parts of at least `least` bytes."""
    parts = [
        (usage.product, "product"),
        (usage.checkpoints, "checkpoints"),
        (usage.row_cache, "training rows"),
        (usage.input_files, "copies of input files"),
    ]
    return f"`{usage.step.id}` " + " + ".join(
        f"{_size(size)} {what}" for size, what in parts if size >= least
    )


def _advice(step: Step) -> str:
    free = "free space (`recipe gc` deletes what no run refers to), or set another folder with --home"
    params = read_step_params(step)
    limit = params.params.get("save_total_limit") if isinstance(params, TrainStepParams) else None
    return f"{free}; `{step.id}` keeps {limit} checkpoints (save_total_limit)" if limit else free


def _size(count: float) -> str:
    return f"{count / _GB:.1f} GB" if count >= _GB / 10 else f"{count / (1 << 20):.1f} MB"

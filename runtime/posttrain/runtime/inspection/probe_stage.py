"""Probes a training stage of a run: rebuilds the context of its step, and samples completions."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.inspection.run_lookup import DamagedProduct, find_product, find_training_step
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import find_step_key
from posttrain.runtime.training.probe import ProbeOptions, probe
from posttrain.spec.step_params.train_params import TrainStepParams

if TYPE_CHECKING:
    from posttrain.spec.plan import Step


def probe_stage(home: Home, run: Path, stage: str, options: ProbeOptions) -> dict[str, Any]:
    """The report of a probe of a stage's product, or of its newest checkpoint while it trains.

    Raises `UnknownName` when the run has no such training stage, and `StepError` when nothing can be sampled.
    """
    step = find_training_step(run, stage)
    product = _find_intact(home, run, stage)
    with TemporaryDirectory() as scratch:
        context = _step_context(home, run, step, Path(scratch))
        return probe(context, product, options)


def _step_context(home: Home, run: Path, step: "Step", scratch: Path) -> StepContext[TrainStepParams]:
    """The context in which the code of the stage runs, with a temporary output folder."""
    inputs: dict[str, Path] = {}
    for role, source in step.inputs.items():
        product = _find_intact(home, run, source.step)
        if product is None:
            raise StepError(
                f"`{source.step}`, an input of `{step.id}`, has not finished", "wait until it ends"
            )
        inputs[role] = product / source.output if source.output else product
    folder = _recipe_folder(run)
    params = read_step_params(step)
    assert isinstance(params, TrainStepParams), f"`{step.id}` is a training step"
    return StepContext(
        step=step,
        params=params,
        inputs=inputs,
        files={role: folder / file.path for role, file in step.files.items()},
        out=scratch,
        work=home.workdir(find_step_key(run, step.id) or ""),
        events=EventWriter(scratch / "events.jsonl"),
    )


def _find_intact(home: Home, run: Path, id: str) -> Path | None:
    """The files of the product of a step; None when the step has not finished."""
    try:
        return find_product(home, run, id)
    except DamagedProduct as error:
        advice = "move it aside with `recipe verify --repair`; the next run recreates it"
        raise StepError(str(error), advice) from None


def _recipe_folder(run: Path) -> Path:
    journal = Journal(run / "journal.sqlite")
    folder = Path(str(journal.get("recipe", "."))).parent
    journal.close()
    return folder

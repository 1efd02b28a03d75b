"""The evals that run during a training stage: their work, and the assumptions that the plan states."""

from collections.abc import Sequence
from typing import NamedTuple

from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.placement.assumed_lengths import MEAN_COMPLETION_SHARE, assumed_prompt_tokens
from posttrain.compiler.placement.held_out_duration import HeldOutWork, held_out_notes
from posttrain.compiler.placement.inloop_evaluation import EvaluationWork, evaluation_runs
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.inference import Sampling


class InLoopEvalStage(NamedTuple):
    """An eval that runs during training."""

    name: str
    sampling: Sampling
    rows: int | None
    row_count_note: str  # the source of the number of rows, if it is a guess


def evaluation_work(
    trained_model: TrainedModel, shape: Shape, evals: Sequence[InLoopEvalStage], steps: int
) -> tuple[EvaluationWork, ...]:
    """Return the work of the evals, if the training takes this number of steps."""
    runs = _evaluation_runs(trained_model, steps)
    return tuple(
        EvaluationWork(
            name=one.name,
            prompt_tokens=assumed_prompt_tokens(shape, one.sampling),
            completion_tokens=one.sampling.max_tokens,
            samples=one.sampling.n,
            batch_size=one.sampling.batch_size,
            rows=one.rows,
            runs=runs,
        )
        for one in evals
    )


def held_out_work(
    trained_model: TrainedModel, rows: tuple[int | None, str] | None, steps: int
) -> HeldOutWork | None:
    """Return the work of the evaluations on held-out rows."""
    if rows is None:
        return None
    batched = trained_model.method.batched_evaluation(trained_model.training.params)
    return HeldOutWork(*rows, runs=_evaluation_runs(trained_model, steps), batched=batched)


def _evaluation_runs(trained_model: TrainedModel, steps: int) -> int:
    during = trained_model.stage.evaluate
    every = round_up_to_boundary(during.eval_steps, trained_model.training.boundary or 1) if during else 1
    return evaluation_runs(steps, every)


def inloop_evaluation_notes(
    trained_model: TrainedModel, evals: Sequence[InLoopEvalStage], held_out: HeldOutWork | None
) -> list[str]:
    """Return the assumptions on the evaluations during training."""
    during = trained_model.stage.evaluate
    if during is None:
        return []
    notes = [f"in-loop evaluation {one.name}: {_eval_note(one)}" for one in evals]
    early = ["no early stopping"] if during.early_stopping_patience is not None else []
    return [*held_out_notes(held_out), *notes, *early]


def _eval_note(one: InLoopEvalStage) -> str:
    if one.rows is None:
        return "not in the time, because the number of its rows is not known"
    about = f"{one.row_count_note}, " if one.row_count_note else ""
    return f"{about}mean completion length: {MEAN_COMPLETION_SHARE:.0%} of {one.sampling.max_tokens} tokens"

"""The arithmetic of training steps: schedules, batches, and the trainer arguments that follow from them."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.training_params import ReferenceParams, RowParams, TrainingParams
from posttrain.spec.extension import Method, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams

# A LoRA adapter starts at zero and has few weights: it needs, and tolerates, about ten times the rate.
ADAPTER_LEARNING_RATE_FACTOR = 10.0


def resolve_learning_rate(params: TrainingParams, adapter: bool) -> float:
    """Return the learning rate of the recipe, or the default of the method."""
    if params.learning_rate is not None:
        return params.learning_rate
    return params.default_learning_rate * (ADAPTER_LEARNING_RATE_FACTOR if adapter else 1.0)


def row_schedule(params: RowParams, rows: int) -> Schedule:
    """Return the schedule of a method that trains on rows. The last step of an epoch may be smaller."""
    accumulation_steps(params.batch_size, params.micro_batch_size)
    steps = params.max_steps
    if steps is None:
        # The trainer counts the steps of one epoch, including a smaller last one, then multiplies.
        steps = max(1, -int(-params.epochs * max(1, -(-rows // params.batch_size)) // 1))
    check_warmup(params, steps)
    return Schedule(steps=steps, rows_per_step=params.batch_size)


def check_warmup(params: TrainingParams, steps: int) -> None:
    """Require the warm-up to be shorter than the run."""
    if isinstance(params.warmup_steps, int) and params.warmup_steps >= max(steps, 1):
        raise ValueError(
            f"warmup_steps is {params.warmup_steps}, but the run has {steps} steps: lower warmup_steps"
        )


def check_batch_loss(params: RowParams, losses: Sequence[str], comparing: Sequence[str]) -> None:
    """Reject a micro-batch size for losses over the whole batch, which are not means over its rows."""
    for loss in losses:
        if loss in comparing and params.micro_batch_size not in (None, params.batch_size):
            raise ValueError(
                f"the loss `{loss}` is computed over all rows of a batch together, so micro_batch_size"
                " would change it: remove micro_batch_size"
            )


def row_arguments(params: RowParams, context: int) -> dict[str, Any]:
    """Return the trainer arguments for a batch of rows; `context` is the model's context length."""
    return {
        "per_device_train_batch_size": params.micro_batch_size or params.batch_size,
        "gradient_accumulation_steps": accumulation_steps(params.batch_size, params.micro_batch_size),
        "max_length": min(params.max_length, context),
    }


def evaluation_arguments(
    context: StepContext[TrainStepParams], params: TrainingParams, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the trainer arguments for evaluations on held-out rows; `own` are those of the training.

    Each row is evaluated alone, unless the loss compares rows or can be separated into those of the rows.
    """
    method = CATALOG.find("method", context.params.method)
    assert isinstance(method, Method), "a training stage names a method"
    # Without padding, TRL puts the rows of a batch into one sequence.
    batched = method.batched_evaluation(params) and not own.get("padding_free")
    return {
        "per_device_eval_batch_size": own["per_device_train_batch_size"] if batched else 1,
        **({"eval_packing": False} if "packing" in own else {}),
    }


def reference_arguments(params: ReferenceParams) -> dict[str, Any]:
    """Return the trainer arguments for updates of the reference model."""
    if params.ref_model_sync_steps is None:
        return {}
    return {
        "sync_ref_model": True,
        "ref_model_sync_steps": params.ref_model_sync_steps,
        "ref_model_mixup_alpha": params.ref_model_mixup_alpha,
    }


def accumulation_steps(batch: int, micro_batch: int | None) -> int:
    """Return the number of micro-batches in a batch."""
    micro = micro_batch or batch
    if batch % micro:
        raise ValueError(f"the batch size ({batch}) is not a multiple of micro_batch_size ({micro})")
    return batch // micro


def checkpoint_interval(params: TrainingParams, schedule: Schedule) -> int:
    """Return the steps between checkpoints, rounded up to the schedule's checkpoint alignment."""
    steps = params.save_steps or max(1, schedule.steps // 4)
    return -(-steps // schedule.checkpoint_alignment) * schedule.checkpoint_alignment

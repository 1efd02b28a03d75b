"""Kahneman-Tversky optimization (KTO): trains on single completions labeled desirable or undesirable."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.step_arithmetic import reference_arguments, row_arguments, row_schedule
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    ReferenceParams,
    RowParams,
    key_neutral_params,
)
from posttrain.spec.extension import EvalMetric, Footprint, Method, Schedule
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, TrainStepParams


class KtoParams(RowParams, ReferenceParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = Field(
        default=32,
        ge=1,
        description=(
            "The number of rows in an optimizer step, over all devices. A row with a pair counts once and"
            " yields two completions."
        ),
    )
    beta: float = Field(
        default=0.1,
        gt=0,
        description=(
            "The strength of the constraint to the reference model: a higher value lets the model deviate"
            " less."
        ),
    )
    loss_type: Literal["kto", "apo_zero_unpaired"] = Field(
        default="kto",
        description=(
            "The loss. kto estimates the KL divergence from the other rows of the micro-batch, which needs"
            " at least 2 rows. apo_zero_unpaired needs no such estimate."
        ),
    )
    desirable_weight: float = Field(
        default=1.0,
        gt=0,
        description=(
            "The weight of the loss of desirable completions. Raise it if they are fewer than undesirable"
            " ones."
        ),
    )
    undesirable_weight: float = Field(
        default=1.0,
        gt=0,
        description=(
            "The weight of the loss of undesirable completions. Raise it if they are fewer than desirable"
            " ones."
        ),
    )


def schedule(params: KtoParams, rows: int) -> Schedule:
    planned = row_schedule(params, rows)
    if params.loss_type == "kto" and (params.micro_batch_size or params.batch_size) < 2:
        raise ValueError(
            "the loss `kto` estimates the KL divergence from the other rows of a micro-batch: set"
            " micro_batch_size to 2 or more, or take `loss_type: apo_zero_unpaired`"
        )
    return planned


EXTENSION = Method(
    name="kto",
    version=3,
    summary="Kahneman-Tversky optimization (KTO), on labeled completions or on pairs that it splits.",
    params=KtoParams,
    stack=STACK,
    preload=("trl.trainer.kto_trainer", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    # The KL divergence is estimated from the rows of a micro-batch.
    batch_level_loss=lambda params: params.loss_type == "kto",
    accepts=(
        {"prompt": "text", "chosen": "text", "rejected": "text"},
        {"prompt": "messages", "chosen": "messages", "rejected": "messages"},
        {"prompt": "text", "completion": "text", "label": "boolean"},
        {"prompt": "messages", "completion": "messages", "label": "boolean"},
    ),
    footprint=Footprint(loss="chunked", has_reference_model=lambda _: True),
    schedule=schedule,
    needs_reference=True,
    trl="KTOConfig",
    eval_metrics=(
        EvalMetric("eval_loss", lower_is_better=True),
        EvalMetric("eval_rewards/margins", None),
        EvalMetric("eval_rewards/chosen", None),
        EvalMetric("eval_rewards/rejected", None),
    ),
    batched_evaluation=lambda params: params.loss_type == "kto",
)


def run(context: StepContext[TrainStepParams]) -> None:
    from trl.trainer.kto_config import KTOConfig
    from trl.trainer.kto_trainer import KTOTrainer

    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.training.preference_training import tokenizing_trainer
    from posttrain.runtime.training.reference_model import load_named_reference
    from posttrain.runtime.training.trainer_dataset import has_pairs, prepare_rows, shuffle_rows
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import context_length

    params = read_extension_params(KtoParams, context.params.params)
    start = load_for_training(context)
    rows, held_out = (
        shuffle_rows(prepare_rows(context, start.tokenizer, role, pairs_apart=True), context.params.seed)
        if role in context.inputs
        else None
        for role in ("data", HELD_OUT_ROLE)
    )
    assert rows is not None, "a training stage has data"
    completions = 2 if has_pairs(rows) else 1
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(rows) // completions), start)
    own: dict[str, Any] = {
        **row_arguments(params, context_length(start.model)),
        "per_device_train_batch_size": (params.micro_batch_size or params.batch_size) * completions,
        "beta": params.beta,
        "loss_type": params.loss_type,
        "desirable_weight": params.desirable_weight,
        "undesirable_weight": params.undesirable_weight,
        **reference_arguments(params),
    }
    reference = load_named_reference(context)
    trainer = tokenizing_trainer(KTOTrainer, context, start.tokenizer, rows, held_out)
    loop.run(loop.build_trainer(trainer, KTOConfig, rows, own, held_out, ref_model=reference), rows)

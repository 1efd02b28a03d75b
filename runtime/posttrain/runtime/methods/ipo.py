"""Identity preference optimization (IPO): DPO with a squared loss, which resists overfitting."""

from typing import ClassVar

from pydantic import Field

from posttrain.runtime.methods.dpo import DpoParams, train
from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import PAIR_COLUMNS, PAIR_EVAL_METRICS
from posttrain.runtime.training.step_arithmetic import row_schedule
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    ReferenceParams,
    RowParams,
    key_neutral_params,
)
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.step_params.train_params import TrainStepParams


class IpoParams(RowParams, ReferenceParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = Field(
        default=32, ge=1, description="The number of pairs in an optimizer step, over all devices."
    )
    beta: float = Field(
        default=0.1,
        gt=0,
        description=(
            "The regularization parameter (tau in the IPO paper): a higher value keeps the model closer to"
            " the reference model."
        ),
    )


EXTENSION = Method(
    name="ipo",
    version=3,
    summary="Identity preference optimization (IPO), on pairs of chosen and rejected.",
    params=IpoParams,
    stack=STACK,
    preload=("trl.trainer.dpo_trainer", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda _: False,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2, loss="chunked", has_reference_model=lambda _: True),
    eval_metrics=PAIR_EVAL_METRICS,
    schedule=row_schedule,
    needs_reference=True,
    trl="DPOConfig",
)


def run(context: StepContext[TrainStepParams]) -> None:
    train(context, read_extension_params(DpoParams, {**context.params.params, "loss_type": "ipo"}))

"""Odds-ratio preference optimization (ORPO): SFT and preference loss in one, without a reference model.

The trainer is experimental in TRL and may disappear in a later release; only this file depends on it.
"""

from typing import ClassVar

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import (
    PAIR_COLUMNS,
    PAIR_EVAL_METRICS,
    import_experimental,
    train_on_pairs,
)
from posttrain.runtime.training.step_arithmetic import row_schedule
from posttrain.runtime.training.training_params import HEAVY_IMPORTS, STACK, RowParams, key_neutral_params
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.step_params.train_params import TrainStepParams


class OrpoParams(RowParams):
    default_learning_rate: ClassVar[float] = 8e-6

    batch_size: int = Field(
        default=32, ge=1, description="The number of pairs in an optimizer step, over all devices."
    )
    beta: float = Field(
        default=0.1,
        gt=0,
        description=(
            "The weight of the odds-ratio term, which prefers chosen over rejected, relative to the SFT loss"
            " on the chosen completion (lambda in the ORPO paper)."
        ),
    )


EXTENSION = Method(
    name="orpo",
    version=5,
    summary="Odds-ratio preference optimization (ORPO), on pairs, without a reference model.",
    params=OrpoParams,
    stack=STACK,
    preload=("trl.experimental.orpo", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    # The SFT loss is a mean over the tokens of the micro-batch.
    batch_level_loss=lambda _: True,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2),
    eval_metrics=PAIR_EVAL_METRICS,
    schedule=row_schedule,
    trl="ORPOConfig",
)


def run(context: StepContext[TrainStepParams]) -> None:
    trl = import_experimental("orpo")
    params = read_extension_params(OrpoParams, context.params.params)
    own = {"beta": params.beta}
    train_on_pairs(context, params, row_schedule, trl.ORPOTrainer, trl.ORPOConfig, own)

"""Simple preference optimization (SimPO): the implicit reward is the mean log-probability of a completion."""

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


class SimpoParams(RowParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = Field(
        default=32, ge=1, description="The number of pairs in an optimizer step, over all devices."
    )
    beta: float = Field(
        default=2.0,
        gt=0,
        description="The scale of the reward difference between chosen and rejected. 2.0 to 2.5 is typical.",
    )
    simpo_gamma: float = Field(
        default=1.0,
        ge=0,
        description=(
            "The target margin (gamma in the SimPO paper) by which the reward of the chosen completion should"
            " exceed that of the rejected one. 0.5 to 1.5 is typical."
        ),
    )


EXTENSION = Method(
    name="simpo",
    version=5,
    summary="Simple preference optimization (SimPO), on pairs, without a reference model.",
    params=SimpoParams,
    stack=STACK,
    preload=("trl.experimental.cpo", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda _: False,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2),
    eval_metrics=PAIR_EVAL_METRICS,
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: StepContext[TrainStepParams]) -> None:
    trl = import_experimental("cpo")
    params = read_extension_params(SimpoParams, context.params.params)
    # SimPO is TRL's CPO trainer with this loss and without the SFT loss.
    own = {"beta": params.beta, "loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": params.simpo_gamma}
    train_on_pairs(context, params, row_schedule, trl.CPOTrainer, trl.CPOConfig, own)

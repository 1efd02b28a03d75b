"""Reward model training: the product is a scorer that ranks chosen above rejected completions."""

from typing import ClassVar

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import PAIR_COLUMNS, train_on_pairs
from posttrain.runtime.training.step_arithmetic import row_schedule
from posttrain.runtime.training.training_params import HEAVY_IMPORTS, STACK, RowParams, key_neutral_params
from posttrain.spec.extension import EvalMetric, Footprint, Method
from posttrain.spec.step_params.train_params import TrainStepParams


class RewardModelParams(RowParams):
    default_learning_rate: ClassVar[float] = 1e-5

    batch_size: int = Field(
        default=32, ge=1, description="The number of pairs in an optimizer step, over all devices."
    )
    center_rewards_coefficient: float | None = Field(
        default=None,
        ge=0,
        description=(
            "The weight of an auxiliary loss that keeps the mean score near zero; 0.01 is typical."
            " Default: no such loss."
        ),
    )


EXTENSION = Method(
    name="reward_model",
    version=3,
    summary="Reward model (a scorer), trained on pairs of chosen and rejected.",
    params=RewardModelParams,
    stack=STACK,
    preload=("trl.trainer.reward_trainer", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda _: False,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2, loss="scores"),
    schedule=row_schedule,
    trl="RewardConfig",
    product="scorer",
    eval_metrics=(
        EvalMetric("eval_loss", lower_is_better=True),
        EvalMetric("eval_accuracy", "rate"),
        EvalMetric("eval_margin"),
    ),
)


def run(context: StepContext[TrainStepParams]) -> None:
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    params = read_extension_params(RewardModelParams, context.params.params)
    own = {"center_rewards_coefficient": params.center_rewards_coefficient}
    train_on_pairs(context, params, row_schedule, RewardTrainer, RewardConfig, own, scorer=True)

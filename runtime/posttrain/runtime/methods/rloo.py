"""REINFORCE leave-one-out (RLOO): the baseline is the mean reward of the prompt's other completions."""

from typing import ClassVar

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.rollout_training import (
    ROLLOUT_FOOTPRINT,
    ROLLOUT_HEAVY_IMPORTS,
    RolloutParams,
    rollout_schedule,
    train_on_rollouts,
)
from posttrain.runtime.training.training_params import STACK, key_neutral_params
from posttrain.spec.extension import Method
from posttrain.spec.field_types import Pair
from posttrain.spec.step_params.train_params import TrainStepParams


class RlooParams(RolloutParams):
    default_learning_rate: ClassVar[float] = 1e-6

    beta: float = Field(
        default=0.05,
        ge=0,
        description=(
            "The KL coefficient: the KL divergence from the reference model, times beta, is subtracted from"
            " the reward. 0 loads no reference model and saves its memory."
        ),
    )
    normalize_advantages: bool = Field(
        default=False,
        description="Normalize the advantages of a batch to mean 0 and standard deviation 1.",
    )
    reward_clip_range: Pair[float] | None = Field(
        default=None,
        description=(
            "The minimum and maximum reward, as a list of two numbers. Rewards outside are clipped."
            " Default: no clipping."
        ),
    )

    def check(self) -> None:
        super().check()
        if self.reward_clip_range is not None and self.reward_clip_range[0] >= self.reward_clip_range[1]:
            raise ValueError(
                "reward_clip_range must be [minimum, maximum], with the minimum below the maximum"
            )


EXTENSION = Method(
    name="rloo",
    version=3,
    summary="REINFORCE leave-one-out (RLOO), on a reward graph.",
    params=RlooParams,
    stack=STACK,
    preload=("trl.trainer.rloo_trainer", *ROLLOUT_HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda _: False,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=ROLLOUT_FOOTPRINT,
    schedule=rollout_schedule,
    needs_reward=True,
    needs_reference=True,
    trl="RLOOConfig",
    multi_turn=True,
)


def run(context: StepContext[TrainStepParams]) -> None:
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    params = read_extension_params(RlooParams, context.params.params)
    own = {"normalize_advantages": params.normalize_advantages, "reward_clip_range": params.reward_clip_range}
    train_on_rollouts(context, params, rollout_schedule, RLOOTrainer, RLOOConfig, own)

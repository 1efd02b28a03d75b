"""REINFORCE leave-one-out: each completion is held against the mean reward of its prompt's others."""

from typing import ClassVar

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import STACK, neutral
from posttrain.runtime.training.rollouts import (
    ROLLOUT_FOOTPRINT,
    ROLLOUT_HEAVY,
    RolloutParams,
    rollout_schedule,
    train_on_rollouts,
)
from posttrain.spec.declared import field
from posttrain.spec.extension import Method
from posttrain.spec.reading import read


class Rloo(RolloutParams):
    usual_rate: ClassVar[float] = 1e-6

    beta: float = field(
        default=0.05, ge=0, description="The weight of the KL divergence, which is taken off the reward."
    )
    normalize: bool = field(
        default=False, description="Divide the advantages of a batch by their standard deviation."
    )
    reward_range: tuple[float, float] | None = field(
        default=None, description="The least and greatest reward; others are clipped to it."
    )

    def check(self) -> None:
        super().check()
        if self.reward_range is not None and self.reward_range[0] >= self.reward_range[1]:
            raise ValueError("reward_range gives the least reward first, then the greatest")


EXTENSION = Method(
    name="rloo",
    summary="REINFORCE leave-one-out on a reward graph.",
    params=Rloo,
    stack=STACK,
    heavy=("trl.trainer.rloo_trainer", *ROLLOUT_HEAVY),
    neutral=neutral,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=ROLLOUT_FOOTPRINT,
    schedule=rollout_schedule,
    needs_reward=True,
    needs_reference=True,
    trl="RLOOConfig",
    acts=True,
)


def run(context: Context) -> None:
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    params = read(Rloo, context.params["params"])
    own = {"normalize_advantages": params.normalize, "reward_clip_range": params.reward_range}
    train_on_rollouts(context, params, rollout_schedule, RLOOTrainer, RLOOConfig, own)

"""REINFORCE leave-one-out: each completion is held against the mean reward of its prompt's others."""

from typing import Any, ClassVar

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import STACK
from posttrain.runtime.training.rollouts import (
    ROLLOUT_FOOTPRINT,
    ROLLOUT_NEUTRAL,
    RolloutParams,
    rollout_arguments,
    rollout_schedule,
)
from posttrain.spec.extension import Method


class Rloo(RolloutParams):
    usual_rate: ClassVar[float] = 1e-6

    beta: float = Field(
        default=0.05, ge=0, description="The weight of the KL divergence, which is taken off the reward."
    )
    epsilon: float = Field(default=0.2, gt=0, description="How far a probability ratio counts.")
    epsilon_high: float | None = Field(default=None, gt=0, description="The upper bound, when another.")
    normalize: bool = Field(
        default=False, description="Divide the advantages of a batch by their standard deviation."
    )
    reward_range: tuple[float, float] | None = Field(
        default=None, strict=False, description="The least and greatest reward; others are clipped to it."
    )

    def model_post_init(self, _context: Any) -> None:
        if self.reference_every is not None and self.beta == 0:
            raise ValueError("reference_every has no effect while beta is 0: there is no reference")
        if self.reward_range is not None and self.reward_range[0] >= self.reward_range[1]:
            raise ValueError("reward_range gives the least reward first, then the greatest")


EXTENSION = Method(
    name="rloo",
    summary="REINFORCE leave-one-out on a reward graph.",
    params=Rloo,
    stack=STACK,
    heavy=("trl.trainer.rloo_trainer", "pyarrow.parquet"),
    neutral=ROLLOUT_NEUTRAL,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=ROLLOUT_FOOTPRINT,
    schedule=rollout_schedule,
    needs_reward=True,
    needs_reference=True,
    trl="RLOOConfig",
)


def run(context: Context) -> None:
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.rewards.graph import Graph
    from posttrain.runtime.training.fitting import check_prompts
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.reference import point_at_reference
    from posttrain.runtime.training.rewards import reward_function
    from posttrain.runtime.training.rows import training_rows

    params = Rloo.model_validate(context.params["params"])
    start = load_for_training(context)
    point_at_reference(context, start)
    graph = Graph.of_step(context)
    data = training_rows(context, start.tokenizer, ("prompt", *graph.columns))
    loop = Loop(context, params, planned_for(rollout_schedule, params, len(data)), start)
    check_prompts(data["prompt"], start.tokenizer, start.model, params.max_tokens, loop.watch)
    own = {
        "beta": params.beta,
        "epsilon": params.epsilon,
        "epsilon_high": params.epsilon_high,
        "normalize_advantages": params.normalize,
        "reward_clip_range": params.reward_range,
    }
    trainer = RLOOTrainer(
        model=start.model,
        args=RLOOConfig(**loop.arguments({**rollout_arguments(params), **own})),
        train_dataset=data,
        processing_class=start.tokenizer,
        reward_funcs=reward_function(graph, loop, params.generations),
        peft_config=start.adapter,
    )
    loop.run(trainer, data)

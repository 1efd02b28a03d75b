"""Group relative policy optimization (GRPO): compares the rewards of several completions of each prompt."""

from typing import Any, ClassVar, Literal

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
from posttrain.spec.extension import Method, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams

# The clipping parameters that a loss does not read. cispo bounds the ratio by epsilon_high alone.
_UNUSED_CLIPPING = {
    "cispo": ("epsilon", "delta"),
    "sapo": ("epsilon", "epsilon_high", "delta"),
    "vespo": ("epsilon", "epsilon_high", "delta"),
}


class GrpoParams(RolloutParams):
    default_learning_rate: ClassVar[float] = 1e-6

    epsilon_high: float | None = Field(
        default=None,
        gt=0,
        description=(
            "The upper clipping range: the ratio is clipped at 1 + epsilon_high. DAPO recommends 0.28."
            " Default: epsilon. With the loss cispo it is the bound of the ratio itself, and the default"
            " is 5."
        ),
    )
    delta: float | None = Field(
        default=None,
        gt=1,
        description=(
            "The upper bound of the probability ratio for tokens with negative advantage (two-sided clipping,"
            " INTELLECT-2). Choose a value above 1 + epsilon_high. Default: no bound."
        ),
    )
    loss_type: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = Field(
        default="dapo",
        description=(
            "The loss. dapo averages over all tokens of the batch; grpo averages per completion, which favors"
            " short correct ones; dr_grpo divides by max_completion_length; bnpo averages over the tokens of"
            " a micro-batch. cispo, sapo and vespo replace the clipping; luspo is a sequence-level loss."
        ),
    )
    scale_rewards: Literal["group", "batch", "none"] = Field(
        default="group",
        description=(
            "The standard deviation that the advantages are divided by: of the prompt's completions (group),"
            " of the whole batch (batch), or no division (none). none avoids a bias towards prompts whose"
            " rewards hardly vary (Dr. GRPO)."
        ),
    )
    importance_sampling_level: Literal["token", "sequence"] = Field(
        default="token",
        description=(
            "The level of the probability ratio: one per token, or one per completion (the mean over its"
            " tokens). sequence with `loss_type: grpo` is GSPO."
        ),
    )
    entropy_coef: float = Field(
        default=0.0,
        ge=0,
        description=(
            "The weight of the entropy bonus. Raise it if completions become too similar to explore."
        ),
    )

    def check(self) -> None:
        super().check()
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise ValueError("the loss `luspo` requires `importance_sampling_level: sequence`")
        if self.loss_type == "vespo" and self.importance_sampling_level != "token":
            raise ValueError(
                "the loss `vespo` computes sequence-level weights itself and requires"
                " `importance_sampling_level: token`"
            )
        if self.importance_sampling_level == "sequence" and self.loss_type not in ("grpo", "sapo", "luspo"):
            raise ValueError(
                f"with `importance_sampling_level: sequence` the loss `{self.loss_type}` weights each"
                " sequence by its length; for GSPO set `loss_type: grpo`"
            )
        for name in _UNUSED_CLIPPING.get(self.loss_type, ()):
            self.refuse_without_effect(name, f"with the loss `{self.loss_type}`")


def schedule(params: GrpoParams, rows: int) -> Schedule:
    if params.loss_type == "bnpo" and params.micro_batch_size not in (
        None,
        params.num_prompts * params.num_generations,
    ):
        raise ValueError(
            "the loss `bnpo` divides by the number of tokens in a micro-batch, so micro_batch_size would"
            " change the result: remove micro_batch_size, or take `loss_type: dapo`"
        )
    return rollout_schedule(params, rows)


EXTENSION = Method(
    name="grpo",
    version=4,
    summary="Group relative policy optimization (GRPO), on a reward graph.",
    params=GrpoParams,
    stack=STACK,
    preload=("trl.trainer.grpo_trainer", *ROLLOUT_HEAVY_IMPORTS),
    neutral=key_neutral_params,
    # bnpo divides by the tokens of a micro-batch, and so do the Liger kernels.
    batch_level_loss=lambda params: params.loss_type == "bnpo" or params.use_liger_kernel,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=ROLLOUT_FOOTPRINT,
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
    trl="GRPOConfig",
    multi_turn=True,
)


def run(context: StepContext[TrainStepParams]) -> None:
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from posttrain.runtime.trl_compat.entropy_weighting import entropy_weighting_trainer

    params = read_extension_params(GrpoParams, context.params.params)
    own: dict[str, Any] = {
        "delta": params.delta,
        "loss_type": params.loss_type,
        "scale_rewards": params.scale_rewards,
        "importance_sampling_level": params.importance_sampling_level,
        "entropy_coef": params.entropy_coef,
    }
    if params.loss_type == "cispo" and params.epsilon_high is None:
        own["epsilon_high"] = 5.0  # the bound of the ratio itself, recommended by ScaleRL
    train_on_rollouts(context, params, schedule, entropy_weighting_trainer(GRPOTrainer), GRPOConfig, own)

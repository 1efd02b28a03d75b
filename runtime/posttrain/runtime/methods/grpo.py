"""Group-relative policy optimisation: the model writes several completions a prompt, and learns from
how each is rewarded beside the others."""

from typing import Any, ClassVar, Literal

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.rollout_training import (
    ROLLOUT_FOOTPRINT,
    ROLLOUT_HEAVY_IMPORTS,
    RolloutParams,
    rollout_schedule,
    train_on_rollouts,
)
from posttrain.runtime.training.training_params import STACK, key_neutral_params
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Method, Schedule
from posttrain.spec.validation import parse_declaration


class GrpoParams(RolloutParams):
    default_learning_rate: ClassVar[float] = 1e-6

    epsilon_high: float | None = field(
        default=None,
        gt=0,
        description="The upper bound, when another: 0.28 in DAPO. With cispo it bounds the ratio itself,"
        " and is 5 when not given.",
    )
    delta: float | None = field(
        default=None, gt=1, description="A bound on the ratio where the advantage is negative."
    )
    loss_type: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = field(
        default="dapo", description="How the losses of the tokens are put together."
    )
    scale_rewards: Literal["group", "batch", "none"] = field(
        default="group", description="Whose spread the advantages are divided by."
    )
    importance_sampling_level: Literal["token", "sequence"] = field(
        default="token",
        description="What a probability ratio is taken over; with `loss_type: grpo`, sequence is GSPO.",
    )
    entropy_coef: float = field(
        default=0.0, ge=0, description="The weight of a bonus for entropy, which keeps completions diverse."
    )

    def check(self) -> None:
        super().check()
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise ValueError("the loss `luspo` goes with `importance_sampling_level: sequence`")
        if self.loss_type == "vespo" and self.importance_sampling_level != "token":
            raise ValueError(
                "the loss `vespo` takes whole sequences by itself, and goes with `importance_sampling_level: token`"
            )
        if self.importance_sampling_level == "sequence" and self.loss_type not in ("grpo", "sapo", "luspo"):
            raise ValueError(
                f"with `importance_sampling_level: sequence` the loss `{self.loss_type}` weighs each sequence by its length; GSPO is"
                " `loss_type: grpo`"
            )


def schedule(params: GrpoParams, rows: int) -> Schedule:
    if params.loss_type == "bnpo" and params.micro_batch_size not in (
        None,
        params.num_prompts * params.num_generations,
    ):
        raise ValueError(
            "the loss `bnpo` divides by the tokens that are in memory together, so micro_batch_size would change"
            " it: remove micro_batch_size, or take `loss_type: dapo`"
        )
    return rollout_schedule(params, rows)


EXTENSION = Method(
    name="grpo",
    summary="Group-relative policy optimisation on a reward graph.",
    params=GrpoParams,
    stack=STACK,
    preload=("trl.trainer.grpo_trainer", *ROLLOUT_HEAVY_IMPORTS),
    neutral=key_neutral_params,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=ROLLOUT_FOOTPRINT,
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
    trl="GRPOConfig",
    multi_turn=True,
)


def run(context: StepContext) -> None:
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    params = parse_declaration(GrpoParams, context.params["params"])
    own: dict[str, Any] = {
        "delta": params.delta,
        "loss_type": params.loss_type,
        "scale_rewards": params.scale_rewards,
        "importance_sampling_level": params.importance_sampling_level,
        "entropy_coef": params.entropy_coef,
    }
    if params.loss_type == "cispo" and params.epsilon_high is None:
        own["epsilon_high"] = 5.0  # it bounds the ratio, which is 1 where nothing has changed yet
    train_on_rollouts(context, params, schedule, GRPOTrainer, GRPOConfig, own)

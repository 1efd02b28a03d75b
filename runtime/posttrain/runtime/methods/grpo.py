"""Group-relative policy optimisation: the model writes several completions a prompt, and learns from
how each is rewarded beside the others."""

from typing import Any, ClassVar, Literal

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
from posttrain.spec.extension import Method, Schedule
from posttrain.spec.reading import read


class Grpo(RolloutParams):
    usual_rate: ClassVar[float] = 1e-6

    epsilon_high: float | None = field(
        default=None,
        gt=0,
        description="The upper bound, when another: 0.28 in DAPO. With cispo it bounds the ratio itself,"
        " and is 5 when not given.",
    )
    delta: float | None = field(
        default=None, gt=1, description="A bound on the ratio where the advantage is negative."
    )
    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = field(
        default="dapo", description="How the losses of the tokens are put together."
    )
    scale: Literal["group", "batch", "none"] = field(
        default="group", description="Whose spread the advantages are divided by."
    )
    ratio: Literal["token", "sequence"] = field(
        default="token",
        description="What a probability ratio is taken over; with `loss: grpo`, sequence is GSPO.",
    )
    entropy: float = field(
        default=0.0, ge=0, description="The weight of a bonus for entropy, which keeps completions diverse."
    )

    def check(self) -> None:
        super().check()
        if self.loss == "luspo" and self.ratio != "sequence":
            raise ValueError("the loss `luspo` goes with `ratio: sequence`")
        if self.loss == "vespo" and self.ratio != "token":
            raise ValueError("the loss `vespo` takes whole sequences by itself, and goes with `ratio: token`")
        if self.ratio == "sequence" and self.loss not in ("grpo", "sapo", "luspo"):
            raise ValueError(
                f"with `ratio: sequence` the loss `{self.loss}` weighs each sequence by its length; GSPO is"
                " `loss: grpo`"
            )


def schedule(params: Grpo, rows: int) -> Schedule:
    if params.loss == "bnpo" and params.micro_batch not in (None, params.prompts * params.generations):
        raise ValueError(
            "the loss `bnpo` divides by the tokens that are in memory together, so micro_batch would change"
            " it: leave micro_batch out, or take `loss: dapo`"
        )
    return rollout_schedule(params, rows)


EXTENSION = Method(
    name="grpo",
    summary="Group-relative policy optimisation on a reward graph.",
    params=Grpo,
    stack=STACK,
    heavy=("trl.trainer.grpo_trainer", *ROLLOUT_HEAVY),
    neutral=neutral,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=ROLLOUT_FOOTPRINT,
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
    trl="GRPOConfig",
    acts=True,
)


def run(context: Context) -> None:
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    params = read(Grpo, context.params["params"])
    own: dict[str, Any] = {
        "delta": params.delta,
        "loss_type": params.loss,
        "scale_rewards": params.scale,
        "importance_sampling_level": params.ratio,
        "entropy_coef": params.entropy,
    }
    if params.loss == "cispo" and params.epsilon_high is None:
        own["epsilon_high"] = 5.0  # it bounds the ratio, which is 1 where nothing has changed yet
    train_on_rollouts(context, params, schedule, GRPOTrainer, GRPOConfig, own)

"""Group-relative policy optimisation: the model writes several completions a prompt, and learns from
how each is rewarded beside the others."""

from typing import Any, ClassVar, Literal

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
from posttrain.spec.extension import Method, Schedule


class Grpo(RolloutParams):
    usual_rate: ClassVar[float] = 1e-6

    beta: float = Field(default=0.0, ge=0, description="The weight of the KL divergence from the reference.")
    epsilon: float = Field(default=0.2, gt=0, description="How far a probability ratio counts.")
    epsilon_high: float | None = Field(
        default=None,
        gt=0,
        description="The upper bound, when another: 0.28 in DAPO. With cispo it bounds the ratio itself,"
        " and is 5 when not given.",
    )
    delta: float | None = Field(
        default=None, gt=1, description="A bound on the ratio where the advantage is negative."
    )
    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = Field(
        default="dapo", description="How the losses of the tokens are put together."
    )
    scale: Literal["group", "batch", "none"] = Field(
        default="group", description="Whose spread the advantages are divided by."
    )
    ratio: Literal["token", "sequence"] = Field(
        default="token",
        description="What a probability ratio is taken over; with `loss: grpo`, sequence is GSPO.",
    )
    entropy: float = Field(
        default=0.0, ge=0, description="The weight of a bonus for entropy, which keeps completions diverse."
    )

    def model_post_init(self, _context: Any) -> None:
        if self.loss == "luspo" and self.ratio != "sequence":
            raise ValueError("the loss `luspo` goes with `ratio: sequence`")
        if self.loss == "vespo" and self.ratio != "token":
            raise ValueError("the loss `vespo` takes whole sequences by itself, and goes with `ratio: token`")
        if self.ratio == "sequence" and self.loss not in ("grpo", "sapo", "luspo"):
            raise ValueError(
                f"with `ratio: sequence` the loss `{self.loss}` weighs each sequence by its length; GSPO is"
                " `loss: grpo`"
            )
        if self.reference_every is not None and self.beta == 0:
            raise ValueError("reference_every has no effect while beta is 0: there is no reference")


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
    heavy=("trl.trainer.grpo_trainer", "pyarrow.parquet"),
    neutral=ROLLOUT_NEUTRAL,
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

    from posttrain.runtime.environments.opening import columns
    from posttrain.runtime.environments.rollouts import act
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.rewards.graph import Graph
    from posttrain.runtime.training.fitting import check_prompts
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.reference import point_at_reference
    from posttrain.runtime.training.rewards import reward_function
    from posttrain.runtime.training.rows import training_rows

    params = Grpo.model_validate(context.params["params"])
    start = load_for_training(context)
    point_at_reference(context, start)
    graph = Graph.of_step(context)
    data = training_rows(context, start.tokenizer, ("prompt", *graph.columns, *columns(context)))
    loop = Loop(context, params, planned_for(schedule, params, len(data)), start)
    check_prompts(data["prompt"], start.tokenizer, start.model, params.max_tokens, loop.watch)
    trainer = GRPOTrainer(
        model=start.model,
        args=GRPOConfig(**loop.arguments({**rollout_arguments(params), **_own(params)})),
        train_dataset=data,
        processing_class=start.tokenizer,
        reward_funcs=reward_function(graph, loop, params.generations),
        peft_config=start.adapter,
    )
    act(context, trainer)
    loop.run(trainer, data)


def _own(params: Grpo) -> dict[str, Any]:
    high = params.epsilon_high
    if high is None and params.loss == "cispo":
        high = 5.0  # it bounds the ratio, which is 1 where nothing has changed yet
    return {
        "beta": params.beta,
        "epsilon": params.epsilon,
        "epsilon_high": high,
        "delta": params.delta,
        "loss_type": params.loss,
        "scale_rewards": params.scale,
        "importance_sampling_level": params.ratio,
        "entropy_coef": params.entropy,
    }

"""Proximal policy optimization (PPO): trains on token-level advantages, estimated with a value model.

TRL has no PPO trainer since release 1.13, so posttrain has its own, in `runtime/ppo`.
"""

from typing import ClassVar, Literal

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.step_arithmetic import accumulation_steps, check_warmup, resolve_learning_rate
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    CompletionParams,
    PromptParams,
    TrainingParams,
    key_neutral_params,
)
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams

# The value model is trained by regression, which needs and tolerates a higher rate than the policy.
_CRITIC_LEARNING_RATE_FACTOR = 10.0


class PpoParams(CompletionParams, PromptParams, TrainingParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = Field(
        default=64, ge=1, description="The number of completions in an optimizer step, over all devices."
    )
    num_mini_batches: int = Field(
        default=1,
        ge=1,
        description=(
            "The number of optimizer steps in one pass over a rollout. A rollout has batch_size *"
            " num_mini_batches completions, one for each prompt."
        ),
    )
    num_ppo_epochs: int = Field(
        default=4,
        ge=1,
        description=(
            "The number of passes over each rollout. Lower it if the clip ratio or the KL divergence grows"
            " within a rollout."
        ),
    )
    kl_coef: float = Field(
        default=0.05,
        ge=0,
        description=(
            "The KL coefficient: the KL divergence of each token from the reference model, times kl_coef, is"
            " subtracted from its reward. 0 loads no reference model and saves its memory."
        ),
    )
    kl_estimator: Literal["k1", "k2", "k3"] = Field(
        default="k1",
        description=(
            "The estimator of the KL divergence of a token. k1 is the difference of the log-probabilities:"
            " unbiased, and negative at times. k2 is half its square: biased, and never negative. k3 is"
            " unbiased and never negative."
        ),
    )
    kl_target: float | None = Field(
        default=None,
        gt=0,
        description=(
            "The target KL divergence of a completion, in nats. kl_coef is adapted to reach it. Default:"
            " kl_coef is fixed."
        ),
    )
    kl_horizon: int = Field(
        default=10_000,
        ge=1,
        description=(
            "The speed of the adaptation of kl_coef: the number of completions over which it changes by"
            " about 20% at most. Requires kl_target."
        ),
    )
    cliprange: float = Field(
        default=0.2,
        gt=0,
        description=(
            "The clipping range of the probability ratio between the current policy and the policy that"
            " generated: the ratio is clipped at 1 - cliprange, and at 1 + cliprange unless cliprange_high"
            " is set."
        ),
    )
    cliprange_high: float | None = Field(
        default=None,
        gt=0,
        description=(
            "The upper clipping range: the ratio is clipped at 1 + cliprange_high. Default: cliprange."
        ),
    )
    value_model: Literal["separate", "shared"] = Field(
        default="separate",
        description=(
            "The architecture of the value model. separate is a copy of the starting model with a value"
            " head. shared is a value head on the policy's last hidden states: it needs less memory, but"
            " the value loss also changes the policy's layers."
        ),
    )
    cliprange_value: float = Field(
        default=0.5,
        gt=0,
        description=(
            "The clipping range of the value loss: how far a predicted value can move from its prediction at"
            " generation, in units of the reward. Scale it with the reward."
        ),
    )
    vf_coef: float = Field(
        default=0.1, gt=0, description="The weight of the value loss relative to the policy loss."
    )
    critic_learning_rate: float | None = Field(
        default=None,
        gt=0,
        description=(
            "The peak learning rate of the value model, with the schedule of the policy. Default: ten times"
            " the policy's learning rate."
        ),
    )
    gamma: float = Field(
        default=1.0, gt=0, le=1, description="The discount factor per token. 1 does not discount."
    )
    lam: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description=(
            "The lambda of generalized advantage estimation (GAE). 1 relies on the observed rewards (high"
            " variance), 0 on the value model (high bias)."
        ),
    )
    whiten_advantages: bool = Field(
        default=True,
        description="Normalize the advantages of a rollout to mean 0 and variance 1.",
    )
    entropy_coef: float = Field(
        default=0.0,
        ge=0,
        description=(
            "The weight of the entropy bonus. Raise it if completions become too similar to explore."
        ),
    )
    mask_truncated_completions: bool = Field(
        default=False,
        description="Exclude completions that were truncated at max_completion_length from the loss.",
    )
    missing_eos_penalty: float = Field(
        default=0.0,
        ge=0,
        description=(
            "The penalty for a completion without an end token: it is subtracted from the completion's"
            " reward. Raise it if completions are truncated too often."
        ),
    )
    on_constant_reward: Literal["fail", "warn"] = Field(
        default="fail",
        description=(
            "What to do when all rewards of every rollout have been equal since the start of the run: fail"
            " stops the stage, warn continues with a warning."
        ),
    )
    constant_reward_steps: int = Field(
        default=20,
        ge=1,
        description="The number of optimizer steps with constant rewards before on_constant_reward applies.",
    )

    def check(self) -> None:
        super().check()
        self.check_length_given()
        if self.kl_target is not None and self.kl_coef == 0:
            raise ValueError("kl_target has no effect with kl_coef 0, which loads no reference model")
        if self.kl_target is None:
            self.refuse_without_effect("kl_horizon", "without kl_target")
        if self.kl_coef == 0:
            self.refuse_without_effect("kl_estimator", "with kl_coef 0, which loads no reference model")


def schedule(params: PpoParams, rows: int) -> Schedule:
    accumulation_steps(params.batch_size, params.micro_batch_size)
    alignment = params.num_mini_batches * params.num_ppo_epochs
    steps = params.optimizer_steps(rows, params.batch_size * params.num_mini_batches, alignment)
    check_warmup(params, steps)
    return Schedule(steps=steps, checkpoint_alignment=alignment, rows_per_step=params.batch_size)


EXTENSION = Method(
    name="ppo",
    version=2,
    summary="Proximal policy optimization (PPO), on a reward graph, with a value model.",
    params=PpoParams,
    stack=tuple(name for name in STACK if name != "trl"),
    preload=("transformers.trainer", "transformers.generation.utils", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda _: False,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=Footprint(
        loss="chunked",
        has_reference_model=lambda params: params.kl_coef > 0,
        completions=lambda params: params.batch_size * params.num_mini_batches,
        has_value_model=lambda params: params.value_model == "separate",
        engines=("transformers",),
        strategies=("single", "ddp", "zero1", "zero2"),
    ),
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
    multi_turn=True,
)


def run(context: StepContext[TrainStepParams]) -> None:
    from posttrain.runtime.chat_prompts import row_prompt
    from posttrain.runtime.environments.environment_factory import environment_columns
    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.models.model_saver import parameter_counts
    from posttrain.runtime.models.recipe_decoding import model_settings, report_settings
    from posttrain.runtime.ppo.actor_factory import build_ppo_trainer
    from posttrain.runtime.rewards.engine.graph import Graph
    from posttrain.runtime.training.reward_function import score_function
    from posttrain.runtime.training.trainer_dataset import training_rows
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import check_prompts

    params = read_extension_params(PpoParams, context.params.params)
    start = load_for_training(context)
    report_settings(context, "model", model_settings(start.model))
    graph = Graph.from_step(context)
    rows = training_rows(context, start.tokenizer, (*graph.columns, *environment_columns(context)))
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(rows)), start)
    prompts = [row_prompt(row) for row in rows.data]
    check_prompts(prompts, start.tokenizer, start.model, params.max_completion_length, loop.monitor)
    rate = params.critic_learning_rate or _CRITIC_LEARNING_RATE_FACTOR * resolve_learning_rate(
        params, start.base_key is not None
    )
    trainer = build_ppo_trainer(params, loop, rows.data, score_function(graph, loop), rate)
    loop.run(trainer, rows)
    context.facts.update(parameter_counts(trainer.actor_critic.policy))

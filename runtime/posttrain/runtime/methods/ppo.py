"""Proximal policy optimisation: the model writes, a second model foretells what its completions are
worth, and it learns from how much better each token turned out.

TRL has had no PPO trainer since 1.13: this one is posttrain's own, in `runtime/ppo`.
"""

from typing import ClassVar, Literal

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    PromptParams,
    TrainingParams,
    accumulation_steps,
    check_warmup,
    key_neutral_params,
    resolve_learning_rate,
)
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.inference import MAX_TOKENS_DESCRIPTION
from posttrain.spec.validation import parse_declaration

# Values are learnt by regression, which bears, and wants, a higher rate than the policy.
_CRITIC_LEARNING_RATE_FACTOR = 10.0


class PpoParams(PromptParams, TrainingParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = field(default=64, ge=1, description="Completions in an optimizer step.")
    num_mini_batches: int = field(default=1, ge=1, description="Optimizer steps from one set of completions.")
    num_ppo_epochs: int = field(default=4, ge=1, description="Times each set of completions is learnt from.")
    max_completion_length: int = field(default=256, ge=1, description=MAX_TOKENS_DESCRIPTION)
    temperature: float = field(default=1.0, gt=0, description="The temperature of the sampling.")
    top_p: float = field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    kl_coef: float = field(default=0.05, ge=0, description="The weight of the KL divergence in the reward.")
    kl_estimator: Literal["k1", "k2", "k3"] = field(
        default="k1",
        description="How a token's KL divergence is estimated: k1 is the difference of the log-probabilities,"
        " k2 half its square, k3 is never negative and right on average.",
    )
    kl_target: float | None = field(
        default=None,
        gt=0,
        description="The KL divergence of a completion, in nats, towards which beta is adapted; fixed when"
        " not given.",
    )
    kl_horizon: int = field(
        default=10_000, ge=1, description="Completions in which an adapted beta changes by a fifth at most."
    )
    cliprange: float = field(default=0.2, gt=0, description="How far a probability ratio counts.")
    cliprange_high: float | None = field(default=None, gt=0, description="The upper bound, when another.")
    value_model: Literal["own", "shared"] = field(
        default="own",
        description="What foretells: a copy of the starting model with a head of its own, or a head on the"
        " policy's last states, which takes less memory and disturbs the policy.",
    )
    cliprange_value: float = field(
        default=0.5, gt=0, description="How far a value may move at once, in units of the reward."
    )
    vf_coef: float = field(default=0.1, gt=0, description="The weight of the value model's loss.")
    critic_learning_rate: float | None = field(
        default=None,
        gt=0,
        description="The value model's learning rate; ten times the policy's when not given.",
    )
    gamma: float = field(default=1.0, gt=0, le=1, description="The discount of later rewards.")
    lam: float = field(default=0.95, ge=0, le=1, description="GAE's lambda.")
    whiten_advantages: bool = field(
        default=True, description="Scale the advantages of a set of completions to mean 0 and variance 1."
    )
    entropy_coef: float = field(
        default=0.0, ge=0, description="The weight of a bonus for entropy, which keeps completions diverse."
    )
    mask_truncated_completions: bool = field(
        default=False, description="Learn nothing from completions that were cut at their longest length."
    )
    missing_eos_penalty: float = field(
        default=0.0, ge=0, description="What a completion that was cut has taken off its reward."
    )
    on_constant_reward: Literal["fail", "warn"] = field(
        default="fail", description="What to do about a reward that has not varied since the run began."
    )
    constant_reward_steps: int = field(
        default=20, ge=1, description="Steps without any variation after which that is so."
    )

    def check(self) -> None:
        super().check()
        self.check_length_given()
        if self.kl_target is not None and self.kl_coef == 0:
            raise ValueError("kl_target has no effect while beta is 0: there is no reference")


def schedule(params: PpoParams, rows: int) -> Schedule:
    accumulation_steps(params.batch_size, params.micro_batch_size)
    boundary = params.num_mini_batches * params.num_ppo_epochs
    steps = params.optimizer_steps(rows, params.batch_size * params.num_mini_batches, boundary)
    check_warmup(params, steps)
    return Schedule(steps=steps, checkpoint_alignment=boundary, rows_per_step=params.batch_size)


EXTENSION = Method(
    name="ppo",
    summary="Proximal policy optimisation on a reward graph, with a value model.",
    params=PpoParams,
    stack=tuple(name for name in STACK if name != "trl"),
    preload=("transformers.trainer", "transformers.generation.utils", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=Footprint(
        loss="chunked",
        has_reference_model=lambda params: params.kl_coef > 0,
        completions=lambda params: params.batch_size * params.num_mini_batches,
        has_value_model=lambda params: params.value_model == "own",
        engines=("transformers",),
        strategies=("single", "ddp", "zero1", "zero2"),
    ),
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
    multi_turn=True,
)


def run(context: StepContext) -> None:
    from posttrain.runtime.environments.environment_factory import environment_columns
    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.models.model_saver import parameter_counts
    from posttrain.runtime.ppo.actor_factory import build_ppo_trainer
    from posttrain.runtime.rewards.engine.graph import Graph
    from posttrain.runtime.training.reward_function import score_function
    from posttrain.runtime.training.trainer_dataset import training_dataset
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import check_prompts

    params = parse_declaration(PpoParams, context.params["params"])
    start = load_for_training(context)
    graph = Graph.from_step(context)
    data = training_dataset(
        context, start.tokenizer, ("prompt", *graph.columns, *environment_columns(context))
    )
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(data)), start)
    check_prompts(data["prompt"], start.tokenizer, start.model, params.max_completion_length, loop.monitor)
    rate = params.critic_learning_rate or _CRITIC_LEARNING_RATE_FACTOR * resolve_learning_rate(
        params, start.base_key is not None
    )
    trainer = build_ppo_trainer(params, loop, data, score_function(graph, loop), rate)
    loop.run(trainer, data)
    context.facts.update(parameter_counts(trainer.pair.policy))

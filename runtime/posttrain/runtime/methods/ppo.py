"""Proximal policy optimisation: the model writes, a second model foretells what its completions are
worth, and it learns from how much better each token turned out.

TRL has had no PPO trainer since 1.13: this one is posttrain's own, in `runtime/ppo`.
"""

from typing import ClassVar, Literal

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import (
    HEAVY,
    STACK,
    PromptParams,
    TrainingParams,
    divided,
    learning_rate,
    neutral,
    risen,
)
from posttrain.spec.asking import LONGEST
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.reading import read

# Values are learnt by regression, which bears, and wants, a higher rate than the policy.
_VALUE_FACTOR = 10.0


class Ppo(PromptParams, TrainingParams):
    usual_rate: ClassVar[float] = 1e-6

    batch: int = field(default=64, ge=1, description="Completions in an optimizer step.")
    minibatches: int = field(default=1, ge=1, description="Optimizer steps from one set of completions.")
    iterations: int = field(default=4, ge=1, description="Times each set of completions is learnt from.")
    max_tokens: int = field(default=256, ge=1, description=LONGEST)
    temperature: float = field(default=1.0, gt=0, description="The temperature of the sampling.")
    top_p: float = field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    beta: float = field(default=0.05, ge=0, description="The weight of the KL divergence in the reward.")
    kl: Literal["k1", "k2", "k3"] = field(
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
    epsilon: float = field(default=0.2, gt=0, description="How far a probability ratio counts.")
    epsilon_high: float | None = field(default=None, gt=0, description="The upper bound, when another.")
    value_model: Literal["own", "shared"] = field(
        default="own",
        description="What foretells: a copy of the starting model with a head of its own, or a head on the"
        " policy's last states, which takes less memory and disturbs the policy.",
    )
    value_epsilon: float = field(
        default=0.5, gt=0, description="How far a value may move at once, in units of the reward."
    )
    value_weight: float = field(default=0.1, gt=0, description="The weight of the value model's loss.")
    value_rate: float | None = field(
        default=None,
        gt=0,
        description="The value model's learning rate; ten times the policy's when not given.",
    )
    gamma: float = field(default=1.0, gt=0, le=1, description="The discount of later rewards.")
    lam: float = field(default=0.95, ge=0, le=1, description="GAE's lambda.")
    whiten: bool = field(
        default=True, description="Scale the advantages of a set of completions to mean 0 and variance 1."
    )
    entropy: float = field(
        default=0.0, ge=0, description="The weight of a bonus for entropy, which keeps completions diverse."
    )
    skip_cut: bool = field(
        default=False, description="Learn nothing from completions that were cut at their longest length."
    )
    cut_penalty: float = field(
        default=0.0, ge=0, description="What a completion that was cut has taken off its reward."
    )
    on_flat_reward: Literal["fail", "warn"] = field(
        default="fail", description="What to do about a reward that has not varied since the run began."
    )
    flat_steps: int = field(
        default=20, ge=1, description="Steps without any variation after which that is so."
    )

    def check(self) -> None:
        super().check()
        self.counted()
        if self.kl_target is not None and self.beta == 0:
            raise ValueError("kl_target has no effect while beta is 0: there is no reference")


def schedule(params: Ppo, rows: int) -> Schedule:
    divided(params.batch, params.micro_batch)
    boundary = params.minibatches * params.iterations
    steps = params.length(rows, params.batch * params.minibatches, boundary)
    risen(params, steps)
    return Schedule(steps=steps, boundary=boundary, rows_per_step=params.batch)


EXTENSION = Method(
    name="ppo",
    summary="Proximal policy optimisation on a reward graph, with a value model.",
    params=Ppo,
    stack=tuple(name for name in STACK if name != "trl"),
    heavy=("transformers.trainer", "transformers.generation.utils", *HEAVY),
    neutral=neutral,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=Footprint(
        loss="chunked",
        reference=lambda params: params.beta > 0,
        writes=lambda params: params.batch * params.minibatches,
        values=lambda params: params.value_model == "own",
        engines=("transformers",),
        strategies=("single", "ddp", "zero1", "zero2"),
    ),
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
    acts=True,
)


def run(context: Context) -> None:
    from posttrain.runtime.environments.opening import columns
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.models.save import counted
    from posttrain.runtime.ppo.making import trainer_for
    from posttrain.runtime.rewards.graph import Graph
    from posttrain.runtime.training.fitting import check_prompts
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.rewards import score_function
    from posttrain.runtime.training.rows import training_rows

    params = read(Ppo, context.params["params"])
    start = load_for_training(context)
    graph = Graph.of_step(context)
    data = training_rows(context, start.tokenizer, ("prompt", *graph.columns, *columns(context)))
    loop = Loop(context, params, planned_for(schedule, params, len(data)), start)
    check_prompts(data["prompt"], start.tokenizer, start.model, params.max_tokens, loop.watch)
    rate = params.value_rate or _VALUE_FACTOR * learning_rate(params, start.base is not None)
    trainer = trainer_for(params, loop, data, score_function(graph, loop), rate)
    loop.run(trainer, data)
    context.facts.update(counted(trainer.pair.policy))

"""What methods share that learn from completions of their own: parameters, arithmetic, arguments."""

from collections.abc import Callable
from typing import Any, Literal

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import (
    HEAVY,
    PromptParams,
    ReferenceParams,
    TrlParams,
    divided,
    reference_arguments,
    risen,
)
from posttrain.spec.asking import LONGEST
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Schedule


class RolloutParams(PromptParams, TrlParams, ReferenceParams):
    """What methods take that write several completions for each prompt and compare them."""

    prompts: int = field(default=8, ge=1, description="Prompts in an optimizer step.")
    generations: int = field(default=8, ge=2, description="Completions written for each prompt.")
    max_tokens: int = field(default=256, ge=1, description=LONGEST)
    temperature: float = field(default=1.0, gt=0, description="The temperature of the sampling.")
    top_p: float = field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    top_k: int = field(default=0, ge=0, description="Likeliest tokens that are sampled from; 0 is all.")
    min_p: float | None = field(
        default=None, ge=0, le=1, description="The least probability, as a share of the likeliest token's."
    )
    beta: float = field(default=0.0, ge=0, description="The weight of the KL divergence from the reference.")
    epsilon: float = field(default=0.2, gt=0, description="How far a probability ratio counts.")
    epsilon_high: float | None = field(default=None, gt=0, description="The upper bound, when another.")
    iterations: int = field(default=1, ge=1, description="Times each batch of completions is learnt from.")
    buffer: int = field(default=1, ge=1, description="Optimizer steps whose completions are written at once.")
    skip_cut: bool = field(
        default=False, description="Learn nothing from completions that were cut at their longest length."
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
        if self.reference_every is not None and self.beta == 0:
            raise ValueError("reference_every has no effect while beta is 0: there is no reference")


ROLLOUT_HEAVY = (*HEAVY, "posttrain.runtime.training.rewards", "posttrain.runtime.environments.rollouts")
ROLLOUT_FOOTPRINT = Footprint(
    examples=lambda params: params.prompts * params.generations,
    loss="chunked",
    reference=lambda params: params.beta > 0,
    writes=lambda params: params.prompts * params.generations * params.buffer,
)


def rollout_schedule(params: RolloutParams, rows: int) -> Schedule:
    divided(params.prompts * params.generations, params.micro_batch)
    boundary = params.buffer * params.iterations
    steps = params.length(rows, params.prompts * params.buffer, boundary)
    risen(params, steps)
    return Schedule(steps=steps, boundary=boundary, rows_per_step=params.prompts)


def rollout_arguments(params: RolloutParams) -> dict[str, Any]:
    """The trainer's arguments for writing completions and learning from them."""
    batch = params.prompts * params.generations
    accumulation = divided(batch, params.micro_batch)
    return {
        "per_device_train_batch_size": params.micro_batch or batch,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": accumulation * params.buffer,
        "num_iterations": params.iterations,
        "num_generations": params.generations,
        "max_completion_length": params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "min_p": params.min_p,
        "mask_truncated_completions": params.skip_cut,
        "beta": params.beta,
        "epsilon": params.epsilon,
        "epsilon_high": params.epsilon_high,
        **reference_arguments(params),
    }


def train_on_rollouts(
    context: Context,
    params: RolloutParams,
    schedule: Callable[[Any, int], Schedule],
    trainer: Any,
    config: Any,
    own: dict[str, Any],
) -> None:
    """Train with this trainer of TRL's and its configuration; `own` are the method's arguments."""
    from posttrain.runtime.environments.opening import columns, declared
    from posttrain.runtime.environments.rollouts import act
    from posttrain.runtime.launch.rollouts import put_tokenizer, settle, vllm_arguments, window
    from posttrain.runtime.launch.serving import serving
    from posttrain.runtime.models.length import context_of
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.rewards.graph import Graph
    from posttrain.runtime.training.fitting import check_prompts
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.reference import point_at_reference
    from posttrain.runtime.training.rewards import reward_function
    from posttrain.runtime.training.rows import training_rows

    start = load_for_training(context)
    point_at_reference(context, start)
    graph = Graph.of_step(context)
    data = training_rows(context, start.tokenizer, ("prompt", *graph.columns, *columns(context)))
    loop = Loop(context, params, planned_for(schedule, params, len(data)), start)
    longest = check_prompts(data["prompt"], start.tokenizer, start.model, params.max_tokens, loop.watch)
    rewards = reward_function(graph, loop, params.generations)
    own, launch, room = {**rollout_arguments(params), **own}, context.step.launch, 0
    if launch.engine == "vllm":
        grows = declared(context) is not None
        room = window(launch, longest, params.max_tokens, context_of(start.model), grows=grows)
        put_tokenizer(start.model, start.tokenizer, context.work / "scratch")
    with serving(context, room, loop.step) as server:
        own |= {**vllm_arguments(launch, own, room), **server}
        made = loop.made(trainer, config, data, own, reward_funcs=rewards)
        settle(made)
        act(context, made)
        loop.run(made, data)

"""Parameters, schedule and trainer arguments of methods that train on their own completions (GRPO, RLOO)."""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.step_arithmetic import accumulation_steps, check_warmup, reference_arguments
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    CompletionParams,
    PromptParams,
    ReferenceParams,
    TrlParams,
)
from posttrain.spec.extension import Footprint, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams


class RolloutParams(CompletionParams, PromptParams, TrlParams, ReferenceParams):
    """Parameters of methods that sample a group of completions for each prompt and compare their rewards."""

    num_prompts: int = Field(
        default=8,
        ge=1,
        description=(
            "The number of prompts in an optimizer step, over all devices. An optimizer step trains on"
            " num_prompts * num_generations completions."
        ),
    )
    num_generations: int = Field(
        default=8,
        ge=2,
        description=(
            "The number of completions sampled for each prompt (the group size). Raise it if the"
            " completions of a prompt often get the same reward."
        ),
    )
    top_k: int = Field(default=0, ge=0, description="Sample from the k most likely tokens; 0 is all tokens.")
    min_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=(
            "Drop tokens below this share of the most likely token's probability. Default: drop none."
        ),
    )
    beta: float = Field(
        default=0.0,
        ge=0,
        description=(
            "The KL coefficient: the weight of the penalty for diverging from the reference model. 0 loads"
            " no reference model and saves its memory. Raise it if the model drifts too far."
        ),
    )
    epsilon: float = Field(
        default=0.2,
        gt=0,
        description=(
            "The clipping range of the probability ratio between the current policy and the policy that"
            " generated: the ratio is clipped at 1 - epsilon, and at 1 + epsilon unless epsilon_high is set."
        ),
    )
    epsilon_high: float | None = Field(
        default=None,
        gt=0,
        description=("The upper clipping range: the ratio is clipped at 1 + epsilon_high. Default: epsilon."),
    )
    num_iterations: int = Field(
        default=1,
        ge=1,
        description=(
            "The number of optimizer passes over each batch of completions. Above 1, generation takes a"
            " smaller share of the time, and training is more off-policy."
        ),
    )
    optimizer_steps_per_generation: int = Field(
        default=1,
        ge=1,
        description=(
            "The number of optimizer steps whose completions are generated in one batch. Above 1,"
            " generation is more efficient, and later steps are more off-policy."
        ),
    )
    mask_truncated_completions: bool = Field(
        default=False,
        description=(
            "Exclude completions that were truncated at max_completion_length from the loss. DAPO"
            " recommends it for stability."
        ),
    )
    on_constant_reward: Literal["fail", "warn"] = Field(
        default="fail",
        description=(
            "What to do when the rewards within every prompt have been equal since the start of the run,"
            " so that there is no gradient: fail stops the stage, warn continues with a warning."
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
        if self.ref_model_sync_steps is not None and self.beta == 0:
            raise ValueError("ref_model_sync_steps has no effect with beta 0, which loads no reference model")


ROLLOUT_HEAVY_IMPORTS = (
    *HEAVY_IMPORTS,
    "posttrain.runtime.training.reward_function",
    "posttrain.runtime.training.rollout_patches",
)
ROLLOUT_FOOTPRINT = Footprint(
    examples=lambda params: params.num_prompts * params.num_generations,
    loss="chunked",
    has_reference_model=lambda params: params.beta > 0,
    completions=lambda params: (
        params.num_prompts * params.num_generations * params.optimizer_steps_per_generation
    ),
)


def rollout_schedule(params: RolloutParams, rows: int) -> Schedule:
    accumulation_steps(params.num_prompts * params.num_generations, params.micro_batch_size)
    alignment = params.optimizer_steps_per_generation * params.num_iterations
    steps = params.optimizer_steps(
        rows, params.num_prompts * params.optimizer_steps_per_generation, alignment
    )
    check_warmup(params, steps)
    return Schedule(steps=steps, checkpoint_alignment=alignment, rows_per_step=params.num_prompts)


def rollout_arguments(params: RolloutParams) -> dict[str, Any]:
    """Return the trainer arguments for generation and the loss."""
    batch = params.num_prompts * params.num_generations
    accumulation = accumulation_steps(batch, params.micro_batch_size)
    return {
        "per_device_train_batch_size": params.micro_batch_size or batch,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": accumulation * params.optimizer_steps_per_generation,
        "num_iterations": params.num_iterations,
        "num_generations": params.num_generations,
        "max_completion_length": params.max_completion_length,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "min_p": params.min_p,
        "mask_truncated_completions": params.mask_truncated_completions,
        "beta": params.beta,
        "epsilon": params.epsilon,
        "epsilon_high": params.epsilon_high,
        **reference_arguments(params),
    }


def train_on_rollouts(
    context: StepContext[TrainStepParams],
    params: RolloutParams,
    schedule: Callable[[Any, int], Schedule],
    trainer: Any,
    config: Any,
    own: dict[str, Any],
) -> None:
    """Train with a TRL trainer and its configuration class; `own` holds the arguments of the method."""
    from posttrain.runtime.chat_prompts import row_prompt
    from posttrain.runtime.distributed.vllm_node import use_vllm_server
    from posttrain.runtime.distributed.vllm_rollouts import max_model_length, vllm_trainer_arguments
    from posttrain.runtime.environments.environment_factory import environment_columns
    from posttrain.runtime.models.context_length import context_length
    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.models.recipe_decoding import model_settings, report_settings
    from posttrain.runtime.rewards.engine.graph import Graph
    from posttrain.runtime.training.reward_function import reward_function
    from posttrain.runtime.training.rollout_patches import (
        patch_prompts,
        patch_vllm_generation,
        patch_vllm_start,
    )
    from posttrain.runtime.training.trainer_dataset import training_rows
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import check_prompts
    from posttrain.runtime.trl_compat.named_reference import use_named_reference

    start = load_for_training(context)
    report_settings(context, "model", model_settings(start.model))
    use_named_reference(context, start)
    graph = Graph.from_step(context)
    rows = training_rows(context, start.tokenizer, (*graph.columns, *environment_columns(context)))
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(rows)), start)
    prompts = [row_prompt(row) for row in rows.data]
    longest = check_prompts(prompts, start.tokenizer, start.model, params.max_completion_length, loop.monitor)
    rewards = reward_function(graph, loop, params.num_generations)
    own, launch, room = {**rollout_arguments(params), **own}, context.step.launch, 0
    if launch.engine == "vllm":
        grows = context.params.environment is not None
        room = max_model_length(
            launch,
            longest,
            params.max_completion_length,
            context_length(start.model),
            grows=grows,
            evaluated=loop.eval_callback.longest_sequence(),
        )
        patch_vllm_start(start, launch, context.work / "scratch")
    with use_vllm_server(context, room, loop.step) as server:
        own |= {**vllm_trainer_arguments(launch, own, room), **server}
        built = loop.build_trainer(trainer, config, rows, own, reward_funcs=rewards)
        patch_vllm_generation(built)
        patch_prompts(context, built)
        loop.run(built, rows)

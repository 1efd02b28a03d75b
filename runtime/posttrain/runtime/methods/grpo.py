"""Group-relative policy optimisation: the model writes several completions a prompt, and learns from
how each is rewarded beside the others."""

from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import NEUTRAL, STACK, TrainingParams, divided
from posttrain.spec.extension import Method, Schedule


class Grpo(TrainingParams):
    learning_rate: float = Field(default=1e-6, gt=0, description="The highest learning rate.")
    steps: int = Field(ge=1, description="Optimizer steps.")
    prompts: int = Field(default=8, ge=1, description="Prompts in an optimizer step.")
    generations: int = Field(default=8, ge=2, description="Completions written for each prompt.")
    max_tokens: int = Field(default=256, ge=1, description="The longest completion, in tokens.")
    temperature: float = Field(default=1.0, gt=0, description="The temperature of the sampling.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    beta: float = Field(default=0.0, ge=0, description="The weight of the KL divergence from the reference.")
    epsilon: float = Field(default=0.2, gt=0, description="How far a probability ratio counts.")
    epsilon_high: float | None = Field(default=None, gt=0, description="The upper bound, when another.")
    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = Field(
        default="dapo", description="How the losses of the tokens are put together."
    )
    scale: Literal["group", "batch", "none"] = Field(
        default="group", description="Whose spread the advantages are divided by."
    )
    ratio: Literal["token", "sequence"] = Field(
        default="token", description="What a probability ratio is taken over; sequence is GSPO."
    )
    iterations: int = Field(default=1, ge=1, description="Times each batch of completions is learnt from.")
    buffer: int = Field(default=1, ge=1, description="Optimizer steps whose completions are written at once.")


def schedule(params: Grpo, rows: int) -> Schedule:
    divided(params.prompts * params.generations, params.micro_batch)
    boundary = params.buffer * params.iterations
    if rows < params.prompts * params.buffer:
        raise ValueError(
            f"{params.prompts * params.buffer} prompts are wanted at once, and the data has {rows}"
        )
    return Schedule(steps=params.steps, boundary=boundary, rows_per_step=params.prompts)


EXTENSION = Method(
    name="grpo",
    summary="Group-relative policy optimisation on a reward graph.",
    params=Grpo,
    stack=STACK,
    heavy=("trl.trainer.grpo_trainer", "pyarrow.parquet"),
    neutral=NEUTRAL,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    schedule=schedule,
    needs_reward=True,
    trl="GRPOConfig",
)


def run(context: Context) -> None:
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.rewards.graph import Graph
    from posttrain.runtime.rewards.training import reward_function
    from posttrain.runtime.training.loop import Loop, arguments
    from posttrain.runtime.training.rows import training_rows

    params = Grpo.model_validate(context.params["params"])
    model, tokenizer = load_for_training(context)
    graph = Graph.from_plan(context.params["reward"])
    data = training_rows(context, tokenizer, ("prompt", *graph.columns))
    planned = schedule(params, len(data))
    loop = Loop(context, params, planned)
    config = GRPOConfig(**arguments(context, params, planned, _own(params)))
    trainer = GRPOTrainer(
        model=model,
        args=config,
        train_dataset=data,
        processing_class=tokenizer,
        reward_funcs=reward_function(graph, loop, params.generations),
    )
    loop.run(trainer)


def _own(params: Grpo) -> dict[str, Any]:
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
        "beta": params.beta,
        "epsilon": params.epsilon,
        "epsilon_high": params.epsilon_high,
        "loss_type": params.loss,
        "scale_rewards": params.scale,
        "importance_sampling_level": params.ratio,
    }

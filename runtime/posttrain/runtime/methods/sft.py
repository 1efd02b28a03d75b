"""Supervised fine-tuning: the model learns to write the completions of its data."""

from typing import Any

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import NEUTRAL, STACK, TrainingParams, divided
from posttrain.spec.extension import Method, Schedule


class Sft(TrainingParams):
    epochs: float = Field(default=1.0, gt=0, description="Passes over the data.")
    steps: int | None = Field(default=None, ge=1, description="Optimizer steps, instead of epochs.")
    batch: int = Field(default=16, ge=1, description="Rows in an optimizer step.")
    max_length: int = Field(
        default=1024, ge=8, description="The longest sequence in tokens; longer ones are cut at the end."
    )
    packing: bool = Field(default=False, description="Put several short rows into one sequence.")
    loss_on: str = Field(
        default="completion",
        pattern="^(completion|all)$",
        description="What the model learns to write: the completion alone, or the whole text.",
    )


def schedule(params: Sft, rows: int) -> Schedule:
    divided(params.batch, params.micro_batch)
    steps = params.steps
    if steps is None:
        # The trainer counts the steps of an epoch, the last of which may be smaller, then multiplies.
        steps = max(1, -int(-params.epochs * max(1, -(-rows // params.batch)) // 1))
    return Schedule(steps=steps, rows_per_step=params.batch)


EXTENSION = Method(
    name="sft",
    summary="Supervised fine-tuning on prompts and completions, or on whole conversations.",
    params=Sft,
    stack=STACK,
    neutral=NEUTRAL,
    accepts=(
        {"prompt": "text", "completion": "text"},
        {"prompt": "messages", "completion": "messages"},
        {"messages": "messages"},
        {"text": "text"},
    ),
    schedule=schedule,
    trl="SFTConfig",
)


def run(context: Context) -> None:
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.training.loop import Loop, arguments
    from posttrain.runtime.training.rows import training_rows

    params = Sft.model_validate(context.params["params"])
    model, tokenizer = load_for_training(context)
    data = training_rows(context, tokenizer, ("prompt", "completion", "messages", "text"))
    planned = schedule(params, len(data))
    own: dict[str, Any] = {
        "per_device_train_batch_size": params.micro_batch or params.batch,
        "gradient_accumulation_steps": divided(params.batch, params.micro_batch),
        "max_length": params.max_length,
        "packing": params.packing,
        "completion_only_loss": params.loss_on == "completion" and "completion" in data.column_names,
        "assistant_only_loss": params.loss_on == "completion" and "messages" in data.column_names,
    }
    config = SFTConfig(**arguments(context, params, planned, own))
    trainer = SFTTrainer(model=model, args=config, train_dataset=data, processing_class=tokenizer)
    Loop(context, params, planned).run(trainer)

"""Supervised fine-tuning (SFT): trains the model on the completions of a dataset."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.step_arithmetic import row_arguments, row_schedule
from posttrain.runtime.training.training_params import HEAVY_IMPORTS, STACK, RowParams, key_neutral_params
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams


class SftParams(RowParams):
    default_learning_rate: ClassVar[float] = 2e-5

    packing: bool = Field(
        default=False,
        description=(
            "Pack several short rows into one sequence of up to max_length tokens. batch_size then counts"
            " packed sequences. Use it to avoid padding when most rows are much shorter than max_length."
        ),
    )
    loss_on: Literal["completion", "all"] = Field(
        default="completion",
        description=(
            "The tokens that the loss covers: completion covers the completion (in conversations, the"
            " assistant's turns), all covers the prompt too. Rows of plain text are always covered whole."
        ),
    )


def schedule(params: SftParams, rows: int) -> Schedule:
    """Return the schedule for `rows` rows or, once the trainer has packed them, `rows` packed sequences."""
    planned = row_schedule(params, rows)
    fewer = params.packing and params.max_steps is None
    return Schedule(steps=planned.steps, rows_per_step=planned.rows_per_step, is_upper_bound=fewer)


EXTENSION = Method(
    name="sft",
    version=3,
    summary="Supervised fine-tuning on prompts and completions, or on whole conversations.",
    params=SftParams,
    stack=STACK,
    preload=("trl.trainer.sft_trainer", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda _: False,
    accepts=(
        {"prompt": "text", "completion": "text"},
        {"prompt": "messages", "completion": "messages"},
        {"messages": "messages"},
        {"text": "text"},
    ),
    footprint=Footprint(loss="chunked"),
    schedule=schedule,
    trl="SFTConfig",
)


def run(context: StepContext[TrainStepParams]) -> None:
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.training.trainer_dataset import training_dataset
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import context_length
    from posttrain.runtime.trl_compat.repeated_rows import unrepeated_rows_trainer

    params = read_extension_params(SftParams, context.params.params)
    start = load_for_training(context)
    data = training_dataset(context, start.tokenizer)
    if params.loss_on == "completion" and "messages" in data.column_names:
        _check_assistant_mask(start.tokenizer)
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(data)), start)
    own: dict[str, Any] = {
        **row_arguments(params, context_length(start.model)),
        "packing": params.packing,
        "completion_only_loss": params.loss_on == "completion" and "completion" in data.column_names,
        "assistant_only_loss": params.loss_on == "completion" and "messages" in data.column_names,
    }
    trainer = loop.build_trainer(unrepeated_rows_trainer(SFTTrainer), SFTConfig, data, own)
    if params.packing:
        loop.replan(trainer, resolve_schedule(schedule, params, len(trainer.train_dataset)))
    loop.run(trainer, data)


def _check_assistant_mask(tokenizer: Any) -> None:
    """Check that the chat template marks the assistant's tokens."""
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    from posttrain.runtime.errors import StepError

    if has_generation_markers(tokenizer.chat_template):
        return
    try:
        get_training_chat_template(tokenizer)  # TRL adds the markers to published templates that it knows
    except ValueError:
        raise StepError(
            "the chat template does not mark the assistant's tokens, so the loss cannot be limited to them",
            "put {% generation %} before the assistant's text and {% endgeneration %} after its end token, or"
            " set `loss_on: all` to train on the whole text",
        ) from None

"""Supervised fine-tuning (SFT): trains the model on the completions of a dataset."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.step_arithmetic import row_arguments, row_schedule
from posttrain.runtime.training.training_params import HEAVY_IMPORTS, STACK, RowParams, key_neutral_params
from posttrain.spec.extension import EvalMetric, Footprint, Method, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams

if TYPE_CHECKING:
    from posttrain.runtime.training.sft_rows import SftRows
    from posttrain.runtime.training.trainer_dataset import RowSource
    from posttrain.runtime.training.training_loop import TrainingLoop


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
            " Turns of the assistant with `train: false` or `weight: 0` are never covered."
        ),
    )


def schedule(params: SftParams, rows: int) -> Schedule:
    """Return the schedule for `rows` rows or, once the trainer has packed them, `rows` packed sequences."""
    planned = row_schedule(params, rows)
    fewer = params.packing and params.max_steps is None
    return Schedule(steps=planned.steps, rows_per_step=planned.rows_per_step, is_upper_bound=fewer)


EXTENSION = Method(
    name="sft",
    version=4,
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
    eval_metrics=(
        EvalMetric("eval_loss", lower_is_better=True),
        EvalMetric("eval_perplexity", None, lower_is_better=True),
        EvalMetric("eval_mean_token_accuracy"),
    ),
    batched_evaluation=lambda params: not params.packing,
    turn_weights=True,
    streams_rows=True,
)


def run(context: StepContext[TrainStepParams]) -> None:
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.streams.row_stream import is_stream
    from posttrain.runtime.training.sft_rows import load_sft_rows
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import context_length
    from posttrain.runtime.trl_compat.repeated_rows import unrepeated_rows_trainer
    from posttrain.runtime.trl_compat.training_templates import patch_training_templates

    params = read_extension_params(SftParams, context.params.params)
    start = load_for_training(context)
    load = partial(load_sft_rows, context, start.tokenizer, loss_on_all=params.loss_on == "all")
    rows = None if is_stream(context.inputs["data"]) else load()
    # A stage with a streamed dataset has `max_steps`.
    planned = resolve_schedule(schedule, params, 0 if rows is None else len(rows.training))
    loop = TrainingLoop(context, params, planned, start)
    own: dict[str, Any] = {
        **row_arguments(params, context_length(start.model)),
        "packing": params.packing,
        # The rows have labels already, and are packed if they shall be.
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "completion_only_loss": False,
    }
    patch_training_templates()
    if rows is None:
        rows = _stream_rows(loop, load, SFTConfig(**loop.arguments(own)))
    trainer = loop.build_trainer(
        unrepeated_rows_trainer(SFTTrainer),
        SFTConfig,
        rows.training,
        own,
        rows.held_out,
        partial(rows.tokenize, stop=context.stop),
    )
    if params.packing:
        loop.replan(trainer, resolve_schedule(schedule, params, len(trainer.train_dataset)))
    loop.run(trainer, rows.training)


def _stream_rows(loop: "TrainingLoop", load: Callable[..., "SftRows"], args: Any) -> "SftRows":
    """Let the loop train on streamed rows. Returns the window of its first row, to build a trainer with."""
    from posttrain.runtime.training.row_preparation import TRAINING_NAME
    from posttrain.runtime.training.streamed_rows import StreamedRows

    def prepare(window: "RowSource") -> Any:
        rows = load(window=window, held_out_rows=False)
        return rows.tokenize(rows.training, TRAINING_NAME, args)

    batch = loop.schedule.rows_per_step
    loop.stream = StreamedRows(loop.context, prepare, steps=loop.schedule.steps, batch=batch)
    if loop.resume_checkpoint is not None:
        loop.stream.restore(loop.resume_checkpoint)
    # A training that has done its last step takes no further row.
    return load(window=loop.stream.window_of(min(loop.step * batch, len(loop.stream) - 1)))

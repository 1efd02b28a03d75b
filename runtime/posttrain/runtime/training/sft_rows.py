"""The rows of supervised fine-tuning, and the part of each that the loss covers."""

from dataclasses import dataclass
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.trainer_dataset import (
    Row,
    check_same_columns,
    prepare_rows,
    rejected_rows_named,
    to_dataset,
    without_weights,
)
from posttrain.runtime.training.turn_weights import check_weights, has_weights, labeled_dataset
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, TrainStepParams


@dataclass(frozen=True)
class SftRows:
    # The rows before tokenization.
    data: Any
    # What the trainer gets: the same rows or, if the loss is set turn by turn, token ids with labels.
    train: Any
    held_out: Any | None
    # Which of TRL's masks apply.
    completion_only_loss: bool
    assistant_only_loss: bool


def load_sft_rows(context: StepContext[TrainStepParams], tokenizer: Any, *, loss_on_all: bool) -> SftRows:
    rows, columns = prepare_rows(context, tokenizer)
    evaluated: list[Row] = []
    if HELD_OUT_ROLE in context.inputs:
        evaluated, held_out_columns = prepare_rows(context, tokenizer, HELD_OUT_ROLE)
    else:
        held_out_columns = columns
    data = to_dataset(without_weights(rows), columns)
    held_out = to_dataset(without_weights(evaluated), held_out_columns) if evaluated else None
    if held_out is not None:
        check_same_columns(held_out, data)
    every = [*rows, *evaluated]
    check_weights(every, loss_on_all=loss_on_all)
    weighted = has_weights(every) or (not loss_on_all and any(map(_continues_answers, every)))
    assistant_only = not loss_on_all and ("messages" in columns or _has_other_turns(every))
    template = _marked_template(tokenizer) if weighted or assistant_only else None
    if weighted:
        tables = {"the data": rows, "`evaluate.data`": evaluated}
        with rejected_rows_named(tables, template or tokenizer.chat_template):
            train, held_out = (
                labeled_dataset(part, tokenizer, template, loss_on_all=loss_on_all) if part else None
                for part in tables.values()
            )
        return SftRows(data, train, held_out, completion_only_loss=False, assistant_only_loss=False)
    completion_only = not loss_on_all and "completion" in columns
    return SftRows(data, data, held_out, completion_only, assistant_only)


def _continues_answers(row: Row) -> bool:
    """Whether a question in the completion follows an answer in the prompt.

    Templates can then render that answer differently, so the completion is not what follows the tokens of the
    prompt.
    """
    prompt, completion = row.get("prompt"), row.get("completion")
    if not isinstance(prompt, list) or not isinstance(completion, list):
        return False
    answered = any(turn["role"] == "assistant" for turn in prompt)
    return answered and any(turn["role"] == "user" for turn in completion)


def _has_other_turns(rows: list[Row]) -> bool:
    """Whether a completion contains turns of others, such as tools, which the model must not learn."""
    completions = (row["completion"] for row in rows if isinstance(row.get("completion"), list))
    return any(turn["role"] != "assistant" for turns in completions for turn in turns)


def _marked_template(tokenizer: Any) -> str | None:
    """The template that marks the assistant's tokens; None if it is the tokenizer's own."""
    from trl.chat_template_utils import has_generation_markers

    from posttrain.runtime.trl_compat.training_templates import training_template

    if has_generation_markers(tokenizer.chat_template):
        return None
    try:
        return training_template(tokenizer)  # TRL adds the markers to published templates that it knows
    except ValueError:
        raise StepError(
            "the chat template does not mark the assistant's tokens, so the loss cannot be limited to them",
            "put {% generation %} before the assistant's text and {% endgeneration %} after its end token, or"
            " set `loss_on: all` to train on the whole text",
        ) from None

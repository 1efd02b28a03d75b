"""The rows of supervised fine-tuning, and the part of each that the loss covers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext, StopRequest
from posttrain.runtime.training.row_preparation import (
    HELD_OUT_NAME,
    TRAINING_NAME,
    PreparedRows,
    Row,
    RowLook,
)
from posttrain.runtime.training.row_tokenization import tokenize_rows, tokenizer_key
from posttrain.runtime.training.sft_tokenization import SftEncoder
from posttrain.runtime.training.trainer_dataset import RowSource, check_same_columns, prepare_rows
from posttrain.runtime.training.turn_weights import check_weights, has_weights
from posttrain.runtime.training.validate_tokenized import check_tokens_left
from posttrain.runtime.trl_compat.row_packing import pack_rows
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, TrainStepParams

_WEIGHTED, _CONTINUED, _OTHER_TURNS = "weighted", "continued", "other turns"


@dataclass(frozen=True, kw_only=True)
class SftRows:
    """The rows before tokenization, and how their tokens get a loss."""

    training: PreparedRows
    held_out: PreparedRows | None
    tokenizer: Any
    # The template that marks the assistant's tokens; None for that of the tokenizer.
    template: str | None
    # Whether the loss is set turn by turn, or by which of TRL's masks.
    by_turn: bool
    loss_on_all: bool
    completion_only_loss: bool
    assistant_only_loss: bool

    def tokenize(self, rows: PreparedRows, name: str, args: Any, stop: StopRequest | None = None) -> Any:
        """The dataset of the trainer: token ids with labels, packed if the trainer's arguments say so."""
        packing = args.packing
        if name == HELD_OUT_NAME and args.eval_packing is not None:
            packing = args.eval_packing
        encoder = SftEncoder(
            tokenizer=self.tokenizer,
            template=self.template,
            by_turn=self.by_turn,
            loss_on_all=self.loss_on_all,
            completion_only=self.completion_only_loss,
            assistant_only=self.assistant_only_loss,
            max_length=None if packing else args.max_length,
            truncation_mode=args.truncation_mode,
        )
        key = {"sft": encoder.key(), "tokenizer": tokenizer_key(self.tokenizer)}
        template = self.template or self.tokenizer.chat_template
        data = tokenize_rows(rows, key, encoder.encode, template, name, stop)
        if name == TRAINING_NAME:
            check_tokens_left(data, len(rows), args)
        seed = args.seed if args.shuffle_dataset else None
        if packing:
            options = (args.max_length, args.packing_strategy)
            data = pack_rows(_shuffled(data, seed), [rows.key, key, seed], options, rows.cache, stop)
        return _shuffled(data, seed)


def load_sft_rows(
    context: StepContext[TrainStepParams],
    tokenizer: Any,
    *,
    loss_on_all: bool,
    window: RowSource | None = None,
    held_out_rows: bool = True,
) -> SftRows:
    """The rows of a stage, or those of a `window` of its streamed rows."""
    prepare = partial(prepare_rows, context, tokenizer, keep_weights=True)
    training = prepare(look=_sft_look(loss_on_all, before=0), given=window)
    held_out = None
    if held_out_rows and HELD_OUT_ROLE in context.inputs:
        held_out = prepare(role=HELD_OUT_ROLE, look=_sft_look(loss_on_all, before=len(training)))
        check_same_columns(held_out.data, training.data)
    every = [rows for rows in (training, held_out) if rows is not None]
    for rows in every:
        if rows.late_error is not None:
            raise StepError(*rows.late_error)
    flags = {name: any(rows.flags[name] for rows in every) for name in training.flags}
    columns = training.columns
    by_turn = flags[_WEIGHTED] or (not loss_on_all and flags[_CONTINUED])
    assistant_only = not loss_on_all and ("messages" in columns or flags[_OTHER_TURNS])
    return SftRows(
        training=training,
        held_out=held_out,
        tokenizer=tokenizer,
        template=_marked_template(tokenizer) if by_turn or assistant_only else None,
        by_turn=by_turn,
        loss_on_all=loss_on_all,
        completion_only_loss=not by_turn and not loss_on_all and "completion" in columns,
        assistant_only_loss=not by_turn and assistant_only,
    )


def _shuffled(data: Any, seed: int | None) -> Any:
    return data if seed is None else data.shuffle(seed=seed, keep_in_memory=True)


def _sft_look(loss_on_all: bool, before: int) -> RowLook:
    """What SFT asks about its rows. `before` is the number of rows of the training before held-out ones."""

    def flags(rows: Sequence[Row]) -> Mapping[str, bool]:
        return {
            _WEIGHTED: has_weights(rows),
            _CONTINUED: any(map(_continues_answers, rows)),
            _OTHER_TURNS: _has_other_turns(rows),
        }

    def check(rows: Sequence[Row], first: int) -> None:
        check_weights(rows, loss_on_all=loss_on_all, first=first + before)

    return RowLook(["sft", loss_on_all, before], flags, check)


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


def _has_other_turns(rows: Sequence[Row]) -> bool:
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

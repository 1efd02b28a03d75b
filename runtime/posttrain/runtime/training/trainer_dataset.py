"""Builds the trainer's dataset: selects columns, and converts text to messages for chat models."""

import json
import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.chat_prompts import (
    TEMPLATE_COLUMNS,
    TEMPLATE_KWARGS,
    TOOLS,
    ChatPrompt,
    read_template_columns,
)
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_probe import check_rendered_parts, find_rejection
from posttrain.runtime.prompts import check_rendered, uses_chat_template
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.validate_rows import match_columns, validate_rows
from posttrain.runtime.turn_order import check_turn_order
from posttrain.spec.extension import Method
from posttrain.spec.messages import is_plain, parse_tools, template_messages
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, TrainStepParams

_TURN_COLUMNS = ("messages", "prompt", "completion", "chosen", "rejected")
# The role of each column's text when it becomes a message.
_COLUMN_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
Row = dict[str, Any]


def training_dataset(context: StepContext[TrainStepParams], tokenizer: Any, more: Iterable[str] = ()) -> Any:
    """Return an in-memory dataset with the columns of the method, and those of `more` that the rows have."""
    rows, columns = prepare_rows(context, tokenizer)
    return to_dataset(without_weights(rows), (*columns, *more))


def held_out_dataset(context: StepContext[TrainStepParams], tokenizer: Any, data: Any) -> Any:
    """Return the rows that a stage evaluates, or None without such rows. They have the form of `data`."""
    if HELD_OUT_ROLE not in context.inputs:
        return None
    rows, columns = prepare_rows(context, tokenizer, HELD_OUT_ROLE)
    held_out = to_dataset(without_weights(rows), columns)
    check_same_columns(held_out, data)
    return held_out


def check_same_columns(held_out: Any, data: Any) -> None:
    """Check that held-out rows have the columns of the training rows, which determine the loss mask."""
    if set(held_out.column_names) ^ set(data.column_names) <= set(TEMPLATE_COLUMNS):
        return
    ours, theirs = (", ".join(sorted(one.column_names)) for one in (held_out, data))
    raise StepError(
        f"the rows of `evaluate.data` have the columns {ours}, but the training rows have {theirs}",
        "rename or derive columns in the steps of one of the datasets",
    )


def prepare_rows(
    context: StepContext[TrainStepParams], tokenizer: Any, role: str = "data"
) -> tuple[list[Row], tuple[str, ...]]:
    """Return the rows that a stage trains on or evaluates, and the columns that its method reads.

    Text becomes messages if the model uses a chat template.
    """
    rows = read_rows(context.inputs[role], context.part(role))
    if not rows:
        raise StepError(
            "the dataset has no rows" if role == "data" else "the dataset of `evaluate.data` has no rows",
            "check the dataset's source and steps: one of them may drop every row",
        )
    method = CATALOG.find("method", context.params.method)
    assert isinstance(method, Method), "a training stage names a method"
    columns = match_columns(rows, method)
    validate_rows(rows, columns, method, template=tokenizer.chat_template is not None)
    rows = read_template_columns(rows, context.params.chat_template_kwargs)
    if uses_chat_template(context, tokenizer) or "messages" in columns.values():
        rows = [as_messages(row) for row in rows]
        check_turn_order((number, talk.messages) for number, talk in _conversations(rows, columns))
        check_rendered_parts(_conversations(rows, columns), tokenizer.chat_template, learned=True)
    else:
        check_rendered([""] * len(rows), rows)
    rendered = [name for name in TEMPLATE_COLUMNS if any(row.get(name) for row in rows)]
    return rows, (*columns, *rendered)


@contextmanager
def rejected_rows_named(tables: Mapping[str, Sequence[Row]], template: Any) -> Generator[None]:
    """Name the row of a table that the chat template rejects while the trainer tokenizes it."""
    from jinja2 import TemplateError

    try:
        yield
    except TemplateError as error:
        advice = "use a chat template that renders such rows, or filter them out in the dataset's steps"
        for name, rows in tables.items():
            found = find_rejection(_conversations(rows, rows[0]), template) if rows else None
            if found is not None:
                message = f"row {found[0]} of {name}: the chat template rejects the conversation: {found[1]}"
                raise StepError(message, advice) from None
        raise StepError(f"the chat template rejects a conversation: {error}", advice) from None


def _conversations(rows: Sequence[Row], columns: Iterable[str]) -> Iterator[tuple[int, ChatPrompt]]:
    """Yield every conversation that the chat template renders, with the number of its row."""
    names = [name for name in columns if name in _TURN_COLUMNS and isinstance(rows[0][name], list)]
    answers = [name for name in names if name != "prompt"]
    for number, row in enumerate(rows, 1):
        prompt = row["prompt"] if "prompt" in names else []
        for turns in [row[name] for name in answers] or [[]]:
            talk = template_messages([*prompt, *turns])
            yield number, ChatPrompt(talk, parse_tools(row.get(TOOLS)), row.get(TEMPLATE_KWARGS) or {})


def to_dataset(rows: list[Row], columns: Iterable[str]) -> Any:
    """Convert rows to the trainer's dataset."""
    from datasets import Dataset, Features, Json, List

    names = [name for name in dict.fromkeys(columns) if name in rows[0]]
    values = {name: [row[name] for row in rows] for name in names}
    # Arrow would add every field to every turn, and the arguments of one tool to the calls of others.
    nested: dict[str, Any] = {name: List(Json()) for name in names if _has_tool_fields(values[name])}
    if TEMPLATE_KWARGS in names:
        nested[TEMPLATE_KWARGS] = Json()
    if TOOLS in names:  # TRL reads JSON text
        values[TOOLS] = [None if tools is None else json.dumps(tools) for tools in values[TOOLS]]
    data = Dataset.from_dict({name: values[name] for name in names if name not in nested})
    if not nested:
        return data
    return Dataset.from_dict(values, features=Features({**data.features, **nested}))


def without_weights(rows: Sequence[Row]) -> list[Row]:
    """The rows without the weights of turns, which chat templates do not get."""
    return [
        {
            name: template_messages(value) if name in _TURN_COLUMNS and isinstance(value, list) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _has_tool_fields(values: Sequence[Any]) -> bool:
    talks = (value for value in values if isinstance(value, list))
    turns = (turn for value in talks for turn in value if isinstance(turn, dict) and "role" in turn)
    return any(not is_plain(turn) for turn in turns)


def as_messages(row: Row) -> Row:
    """Convert text prompts and completions to messages of the user and the assistant."""
    changed = dict(row)
    for column, role in _COLUMN_ROLES.items():
        if isinstance(row.get(column), str):
            changed[column] = [{"role": role, "content": row[column]}]
    return changed


def label_rows(rows: list[Row], seed: int) -> list[Row]:
    """Convert rows to labeled completions. A pair becomes two consecutive rows.

    KTO does not shuffle, and compares the rows of a batch, so the rows are shuffled here.
    """
    order = list(rows)
    random.Random(seed).shuffle(order)
    if not has_pairs(rows):
        return order
    return [
        {
            **{name: row[name] for name in TEMPLATE_COLUMNS if name in row},
            "prompt": row["prompt"],
            "completion": row[column],
            "label": column == "chosen",
        }
        for row in order
        for column in ("chosen", "rejected")
    ]


def has_pairs(rows: list[Row]) -> bool:
    return "chosen" in rows[0]

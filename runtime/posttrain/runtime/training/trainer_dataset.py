"""Rows for a trainer: the columns that it reads, prompts in the form that the model takes."""

import random
from collections.abc import Iterable
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.prompts import uses_chat_template
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.validate_rows import match_columns, validate_rows
from posttrain.spec.extension import Method

# Whose turn each column is, when its text goes through the chat template.
_COLUMN_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
Row = dict[str, Any]


def training_dataset(context: StepContext, tokenizer: Any, more: Iterable[str] = ()) -> Any:
    """A dataset in memory: the columns that the method reads, and those of `more` that the rows have."""
    rows, columns = prepare_rows(context, tokenizer)
    return to_dataset(rows, (*columns, *more))


def prepare_rows(context: StepContext, tokenizer: Any) -> tuple[list[Row], tuple[str, ...]]:
    """The rows that a stage trains on, and the columns that its method reads.

    Text becomes turns where the model takes a conversation.
    """
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError("the data has no rows", "look at the dataset's steps: one may drop everything")
    method = CATALOG.find("method", context.params["method"])
    assert isinstance(method, Method), "a training stage names a method"
    columns = match_columns(rows, method)
    validate_rows(rows, columns, method, template=tokenizer.chat_template is not None)
    if uses_chat_template(context, tokenizer) or "messages" in columns.values():
        rows = [as_messages(row) for row in rows]
    return rows, tuple(columns)


def to_dataset(rows: list[Row], columns: Iterable[str]) -> Any:
    """Rows as the trainer's dataset."""
    from datasets import Dataset

    kept = [name for name in dict.fromkeys(columns) if name in rows[0]]
    return Dataset.from_dict({name: [row[name] for row in rows] for name in kept})


def as_messages(row: Row) -> Row:
    """Text prompts and completions as the turns of a user and an assistant."""
    changed = dict(row)
    for column, role in _COLUMN_ROLES.items():
        if isinstance(row.get(column), str):
            changed[column] = [{"role": role, "content": row[column]}]
    return changed


def label_rows(rows: list[Row], seed: int) -> list[Row]:
    """Rows of one completion and whether it is wanted; a pair becomes two of them, side by side.

    KTO learns in the order given, and compares what stands in a batch: the rows are shuffled here.
    """
    order = list(rows)
    random.Random(seed).shuffle(order)
    if not has_pairs(rows):
        return order
    return [
        {"prompt": row["prompt"], "completion": row[column], "label": column == "chosen"}
        for row in order
        for column in ("chosen", "rejected")
    ]


def has_pairs(rows: list[Row]) -> bool:
    return "chosen" in rows[0]

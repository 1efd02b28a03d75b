"""Builds the trainer's dataset: selects columns, and converts text to messages for chat models."""

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
from posttrain.spec.step_params.train_params import TrainStepParams

# The role of each column's text when it becomes a message.
_COLUMN_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
Row = dict[str, Any]


def training_dataset(context: StepContext[TrainStepParams], tokenizer: Any, more: Iterable[str] = ()) -> Any:
    """Return an in-memory dataset with the columns of the method, and those of `more` that the rows have."""
    rows, columns = prepare_rows(context, tokenizer)
    return to_dataset(rows, (*columns, *more))


def prepare_rows(context: StepContext[TrainStepParams], tokenizer: Any) -> tuple[list[Row], tuple[str, ...]]:
    """Return the rows that a stage trains on, and the columns that its method reads.

    Text becomes messages if the model uses a chat template.
    """
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError(
            "the dataset has no rows",
            "check the dataset's source and steps: one of them may drop every row",
        )
    method = CATALOG.find("method", context.params.method)
    assert isinstance(method, Method), "a training stage names a method"
    columns = match_columns(rows, method)
    validate_rows(rows, columns, method, template=tokenizer.chat_template is not None)
    if uses_chat_template(context, tokenizer) or "messages" in columns.values():
        rows = [as_messages(row) for row in rows]
    return rows, tuple(columns)


def to_dataset(rows: list[Row], columns: Iterable[str]) -> Any:
    """Convert rows to the trainer's dataset."""
    from datasets import Dataset

    names = [name for name in dict.fromkeys(columns) if name in rows[0]]
    return Dataset.from_dict({name: [row[name] for row in rows] for name in names})


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
        {"prompt": row["prompt"], "completion": row[column], "label": column == "chosen"}
        for row in order
        for column in ("chosen", "rejected")
    ]


def has_pairs(rows: list[Row]) -> bool:
    return "chosen" in rows[0]

"""Rows for a trainer: the columns that it reads, prompts in the form that the model takes."""

import random
from collections.abc import Iterable
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.products import read_rows
from posttrain.runtime.prompts import conversational
from posttrain.runtime.training.examining import check_rows, columns_read
from posttrain.spec.extension import Method

# Whose turn each column is, when its text goes through the chat template.
_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
Row = dict[str, Any]


def training_rows(context: Context, tokenizer: Any, more: Iterable[str] = ()) -> Any:
    """A dataset in memory: the columns that the method reads, and those of `more` that the rows have."""
    rows, columns = prepared_rows(context, tokenizer)
    return table(rows, (*columns, *more))


def prepared_rows(context: Context, tokenizer: Any) -> tuple[list[Row], tuple[str, ...]]:
    """The rows that a stage trains on, and the columns that its method reads.

    Text becomes turns where the model takes a conversation.
    """
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault("the data has no rows", "look at the dataset's steps: one may drop everything")
    method = CATALOG.find("method", context.params["method"])
    assert isinstance(method, Method), "a training stage names a method"
    columns = columns_read(rows, method)
    check_rows(rows, columns, method, template=tokenizer.chat_template is not None)
    if conversational(context, tokenizer) or "messages" in columns.values():
        rows = [as_messages(row) for row in rows]
    return rows, tuple(columns)


def table(rows: list[Row], columns: Iterable[str]) -> Any:
    """Rows as the trainer's dataset."""
    from datasets import Dataset

    kept = [name for name in dict.fromkeys(columns) if name in rows[0]]
    return Dataset.from_dict({name: [row[name] for row in rows] for name in kept})


def as_messages(row: Row) -> Row:
    """Text prompts and completions as the turns of a user and an assistant."""
    changed = dict(row)
    for column, role in _ROLES.items():
        if isinstance(row.get(column), str):
            changed[column] = [{"role": role, "content": row[column]}]
    return changed


def labelled(rows: list[Row], seed: int) -> list[Row]:
    """Rows of one completion and whether it is wanted; a pair becomes two of them, side by side.

    KTO learns in the order given, and compares what stands in a batch: the rows are shuffled here.
    """
    order = list(rows)
    random.Random(seed).shuffle(order)
    if not paired(rows):
        return order
    return [
        {"prompt": row["prompt"], "completion": row[column], "label": column == "chosen"}
        for row in order
        for column in ("chosen", "rejected")
    ]


def paired(rows: list[Row]) -> bool:
    return "chosen" in rows[0]

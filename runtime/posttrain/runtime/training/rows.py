"""Rows for a trainer: the columns that it reads, prompts in the form that the model takes."""

import random
from collections.abc import Sequence
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.products import read_rows
from posttrain.runtime.prompts import conversational

# Whose turn each column is, when its text goes through the chat template.
_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
PAIR = ("prompt", "chosen", "rejected")
Row = dict[str, Any]


def training_rows(context: Context, tokenizer: Any, columns: Sequence[str]) -> Any:
    """A dataset in memory with those of the columns that the rows have."""
    return table(prepared_rows(context, tokenizer), columns)


def prepared_rows(context: Context, tokenizer: Any) -> list[Row]:
    """The rows that a stage trains on; text becomes turns where the model takes a conversation."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault("the data has no rows", "look at the dataset's steps: one may drop everything")
    _check_filled(rows)
    if conversational(context, tokenizer) or any(isinstance(rows[0].get(name), list) for name in _ROLES):
        rows = [as_messages(row) for row in rows]
    return rows


def table(rows: list[Row], columns: Sequence[str]) -> Any:
    """Rows as the trainer's dataset."""
    from datasets import Dataset

    kept = [name for name in columns if name in rows[0]]
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


def _check_filled(rows: list[Row]) -> None:
    """A null among the texts would fail deep inside the trainer."""
    for name in (*_ROLES, "messages", "text", "label"):
        if name in rows[0]:
            empty = sum(row.get(name) is None for row in rows)
            if empty:
                raise StepFault(
                    f"{empty} of {len(rows)} rows have nothing in the column `{name}`",
                    f"drop them with the data step `where: {name} IS NOT NULL`",
                )

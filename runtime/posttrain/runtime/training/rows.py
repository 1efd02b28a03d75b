"""Rows for a trainer: the columns that it reads, prompts in the form that the model takes."""

from collections.abc import Sequence
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.products import read_rows


def conversational(context: Context, tokenizer: Any) -> bool:
    """Whether text prompts go through the chat template."""
    wanted = context.params["prompts"]
    has_template = tokenizer.chat_template is not None
    if wanted == "chat" and not has_template:
        raise StepFault(
            "`prompts: chat` is asked for, and the model has no chat template",
            "give the model a chat_template, or write `prompts: plain`",
        )
    return wanted == "chat" or (wanted == "auto" and has_template)


def training_rows(context: Context, tokenizer: Any, columns: Sequence[str]) -> Any:
    """A dataset in memory with those of the columns that the rows have."""
    from datasets import Dataset

    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault("the data has no rows", "look at the dataset's steps: one may drop everything")
    kept = [name for name in columns if name in rows[0]]
    if conversational(context, tokenizer):
        rows = [as_messages(row) for row in rows]
    return Dataset.from_dict({name: [row[name] for row in rows] for name in kept})


def as_messages(row: dict[str, Any]) -> dict[str, Any]:
    """Text prompts and completions as the turns of a user and an assistant."""
    changed = dict(row)
    for column, role in (("prompt", "user"), ("completion", "assistant")):
        if isinstance(row.get(column), str):
            changed[column] = [{"role": role, "content": row[column]}]
    return changed

"""Builds the trainer's dataset from the rows of a stage.

The rows are Arrow files that are mapped into memory (`training_rows/`). Several processes check and convert
them in batches (`row_preparation.py`).
"""

import random
from array import array
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.chat_prompts import TEMPLATE_COLUMNS
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_probe import find_rejection
from posttrain.runtime.prompts import uses_chat_template
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.row_preparation import (
    Preparation,
    PreparedRows,
    RowLook,
    conversations,
    prepare_table,
)
from posttrain.runtime.training.validate_rows import match_columns
from posttrain.runtime.training_rows.arrow_cache import cache_folder
from posttrain.runtime.training_rows.parquet_rows import MappedRows, map_rows
from posttrain.spec.extension import Method
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, TrainStepParams


@dataclass(frozen=True)
class RowSource:
    """Rows that are mapped into memory, and the folder for what is prepared of them."""

    rows: MappedRows
    cache: Path


def training_rows(
    context: StepContext[TrainStepParams], tokenizer: Any, more: Iterable[str] = ()
) -> PreparedRows:
    """Return the rows of a stage with the columns of the method, and those of `more` that the rows have."""
    return prepare_rows(context, tokenizer, more=tuple(more))


def held_out_rows(
    context: StepContext[TrainStepParams], tokenizer: Any, training: PreparedRows
) -> PreparedRows | None:
    """Return the rows that a stage evaluates, or None without such rows. They have the form of `training`."""
    if HELD_OUT_ROLE not in context.inputs:
        return None
    held_out = prepare_rows(context, tokenizer, HELD_OUT_ROLE)
    check_same_columns(held_out.data, training.data)
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
    context: StepContext[TrainStepParams],
    tokenizer: Any,
    role: str = "data",
    *,
    more: tuple[str, ...] = (),
    pairs_apart: bool = False,
    keep_weights: bool = False,
    look: RowLook | None = None,
    given: RowSource | None = None,
) -> PreparedRows:
    """Return the rows that a stage trains on or evaluates, with the columns that its method reads.

    Text becomes messages if the model uses a chat template. `pairs_apart` makes two labeled completions of
    each pair. Messages keep the weights of their turns only with `keep_weights`. The rows are those of the
    product in `role`, unless they are `given`.
    """
    if given is None:
        cache = cache_folder(context)
        source = map_rows(context.inputs[role], context.part(role), cache)
    else:
        source, cache = given.rows, given.cache
    if len(source.table) == 0:
        raise StepError(
            "the dataset has no rows" if role == "data" else "the dataset of `evaluate.data` has no rows",
            "check the dataset's source and steps: one of them may drop every row",
        )
    method = CATALOG.find("method", context.params.method)
    assert isinstance(method, Method), "a training stage names a method"
    columns = match_columns({name: source.values(name) for name in source.table.column_names}, method)
    preparation = Preparation(
        source=source,
        method=method,
        columns=columns,
        template=tokenizer.chat_template,
        template_kwargs=context.params.chat_template_kwargs,
        chat=uses_chat_template(context, tokenizer) or "messages" in columns.values(),
        more=more,
        pairs_apart=pairs_apart and "chosen" in columns,
        keep_weights=keep_weights,
        look=look,
    )
    return prepare_table(preparation, cache, context.stop if given is None else None)


def shuffle_rows(rows: PreparedRows, seed: int) -> PreparedRows:
    """The rows in random order, with the two completions of a pair next to each other.

    KTO does not shuffle, and compares the rows of a batch.
    """
    together = 2 if has_pairs(rows) else 1
    order = array("q", range(len(rows) // together))
    random.Random(seed).shuffle(order)
    numbers = array("q", (place * together + one for place in order for one in range(together)))
    data = rows.data.select(_as_numpy(numbers), keep_in_memory=True)
    return replace(rows, data=data, key=f"{rows.key}-shuffled-{seed}")


def has_pairs(rows: PreparedRows) -> bool:
    """Whether the rows are stored as pairs."""
    return "chosen" in rows.columns


def _as_numpy(numbers: "array[int]") -> Any:
    import numpy

    return numpy.frombuffer(numbers, dtype=numpy.int64)


@contextmanager
def rejected_rows_named(tables: Mapping[str, Any], template: Any) -> Generator[None]:
    """Name the row of a table that the chat template rejects while the trainer tokenizes it."""
    from jinja2 import TemplateError

    try:
        yield
    except TemplateError as error:
        advice = "use a chat template that renders such rows, or filter them out in the dataset's steps"
        for name, rows in tables.items():
            found = find_rejection(conversations(rows, rows[0]), template) if rows else None
            if found is not None:
                message = f"row {found[0]} of {name}: the chat template rejects the conversation: {found[1]}"
                raise StepError(message, advice) from None
        raise StepError(f"the chat template rejects a conversation: {error}", advice) from None

"""Leaves out rows that hold a piece of another dataset, such as the one that a model is tested on."""

from typing import Any

from posttrain.runtime.data.row_tables import check_columns, drop_rows, read_texts
from posttrain.runtime.data.shingles import shingles, split_words
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params


class Decontaminate(Params):
    against: str = field(description="The other dataset, or one of its parts as NAME.PART.")
    columns: list[str] = field(single=True, min_length=1, description="The columns that are searched.")
    in_columns: list[str] | None = field(
        default=None,
        single=True,
        min_length=1,
        description="The other dataset's columns; those of the same names if not given.",
    )
    words: int = field(
        default=13,
        ge=1,
        le=100,
        description="A run of so many words is a piece; a shorter row of the other counts as a whole.",
    )


def columns(params: Decontaminate, before: Columns) -> Columns:
    check_columns(before, params.columns, "text", "messages")
    return before


def needs(params: Decontaminate, other: Columns) -> None:
    try:
        check_columns(other, params.in_columns or params.columns, "text", "messages")
    except ValueError as error:
        raise ValueError(f"in `{params.against}`: {error}") from None


EXTENSION = DataOp(
    name="decontaminate",
    summary="Leave out rows that hold a run of words of another dataset.",
    params=Decontaminate,
    columns=columns,
    other_dataset=lambda params: params.against,
    check_other_columns=needs,
    stack=("duckdb",),
)


def run(params: Decontaminate, connection: Any, seed: int) -> None:
    """Change the table `rows`; the other dataset is the table `other`."""
    pieces: dict[int, set[int]] = {}  # by their number of words: the pieces to be met
    for _, text in read_texts(connection, "other", params.in_columns or params.columns):
        size = min(params.words, len(split_words(text)))
        if size:
            pieces.setdefault(size, set()).update(shingles(text, size))
    rows = read_texts(connection, "rows", params.columns)
    drop_rows(connection, [place for place, text in rows if contains_shingle(text, pieces)])


def contains_shingle(text: str, pieces: dict[int, set[int]]) -> bool:
    """Whether one of the pieces stands in the text."""
    long = len(split_words(text))
    return any(size <= long and not known.isdisjoint(shingles(text, size)) for size, known in pieces.items())

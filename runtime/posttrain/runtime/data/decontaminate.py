"""Data op `decontaminate`: drop rows that share an n-gram with another dataset, such as a test set."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, drop_rows, read_texts
from posttrain.runtime.data.shingles import shingles, split_words
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.field_types import OneOrMore


class Decontaminate(Params):
    against: str = Field(description="The dataset to compare with: NAME, or NAME.PART for one of its parts.")
    columns: OneOrMore[str] = Field(
        min_length=1, description="The columns to search for n-grams of the other dataset."
    )
    against_columns: OneOrMore[str] | None = Field(
        default=None,
        min_length=1,
        description="The columns of the other dataset. The default is `columns`.",
    )
    ngram_size: int = Field(
        default=13,
        ge=1,
        le=100,
        description="The length of an n-gram in words. A shorter row of the other dataset is one n-gram."
        " Lower it to find shorter overlaps.",
    )


def columns(params: Decontaminate, before: Columns) -> Columns:
    check_columns(before, params.columns, "text", "messages")
    return before


def needs(params: Decontaminate, other: Columns) -> None:
    try:
        check_columns(other, params.against_columns or params.columns, "text", "messages")
    except ValueError as error:
        raise ValueError(f"in `{params.against}`: {error}") from None


EXTENSION = DataOp(
    name="decontaminate",
    summary="Drop the rows that share an n-gram with another dataset.",
    params=Decontaminate,
    columns=columns,
    other_dataset=lambda params: params.against,
    check_other_columns=needs,
    stack=("duckdb",),
)


def run(params: Decontaminate, connection: Any, seed: int) -> None:
    """Change the table `rows`. The other dataset is the table `other`."""
    ngrams: dict[int, set[int]] = {}  # number of words -> hashes of the n-grams of that length
    for _, text in read_texts(connection, "other", params.against_columns or params.columns):
        size = min(params.ngram_size, len(split_words(text)))
        if size:
            ngrams.setdefault(size, set()).update(shingles(text, size))
    rows = read_texts(connection, "rows", params.columns)
    drop_rows(connection, [index for index, text in rows if contains_shingle(text, ngrams)])


def contains_shingle(text: str, ngrams: dict[int, set[int]]) -> bool:
    """Whether the text contains one of the n-grams."""
    length = len(split_words(text))
    return any(
        size <= length and not hashes.isdisjoint(shingles(text, size)) for size, hashes in ngrams.items()
    )

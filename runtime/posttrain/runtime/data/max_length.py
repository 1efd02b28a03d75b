"""Data op `max_length`: drop rows that are longer than a limit."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_length import LengthParams, check_length_columns, length_expression
from posttrain.runtime.data.row_tables import replace_rows
from posttrain.spec.extension import DataOp


class MaxLength(LengthParams):
    max_length: int = Field(ge=1, description="The maximum length of a row, in `unit`.")


EXTENSION = DataOp(
    name="max_length",
    summary="Drop the rows that are longer than `max_length` characters or words.",
    params=MaxLength,
    columns=check_length_columns,
    stack=("duckdb",),
    row_by_row=True,
)


def run(params: MaxLength, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    replace_rows(
        connection, f"SELECT * FROM rows WHERE {length_expression(params, connection)} <= {params.max_length}"
    )

"""Leaves out rows that are too long."""

from typing import Any

from posttrain.runtime.data.row_length import LengthParams, check_length_columns, length_expression
from posttrain.runtime.data.row_tables import replace_rows
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp


class MaxLength(LengthParams):
    at_most: int = field(ge=1, description="The longest that a row may be.")


EXTENSION = DataOp(
    name="max_length",
    summary="Leave out the rows that are longer than so many characters or words.",
    params=MaxLength,
    columns=check_length_columns,
    stack=("duckdb",),
)


def run(params: MaxLength, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    replace_rows(
        connection, f"SELECT * FROM rows WHERE {length_expression(params, connection)} <= {params.at_most}"
    )

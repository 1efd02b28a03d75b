"""Leaves out rows that are too long."""

from typing import Any

from posttrain.runtime.data.lengths import Measured, check, length_of
from posttrain.runtime.data.tables import replaced
from posttrain.spec.declared import field
from posttrain.spec.extension import DataOp


class MaxLength(Measured):
    at_most: int = field(ge=1, description="The longest that a row may be.")


EXTENSION = DataOp(
    name="max_length",
    summary="Leave out the rows that are longer than so many characters or words.",
    params=MaxLength,
    columns=check,
    stack=("duckdb",),
)


def run(params: MaxLength, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    replaced(connection, f"SELECT * FROM rows WHERE {length_of(params, connection)} <= {params.at_most}")

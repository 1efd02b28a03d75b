"""Data op `length_percentile`: drop the rows above a percentile of all lengths."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_length import LengthParams, check_length_columns, length_expression
from posttrain.runtime.data.row_tables import replace_rows
from posttrain.spec.extension import DataOp


class LengthPercentile(LengthParams):
    percentile: float = Field(
        default=90.0,
        ge=1,
        le=100,
        description="The percentile of the lengths of all rows, by the nearest-rank method. Rows longer than"
        " this length are dropped; rows of exactly this length are not.",
    )


EXTENSION = DataOp(
    name="length_percentile",
    summary="Drop the rows whose length is above a percentile of all lengths.",
    params=LengthPercentile,
    columns=check_length_columns,
    stack=("duckdb",),
)


def run(params: LengthPercentile, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    length = length_expression(params, connection)
    rank = f"ceil({params.percentile} / 100.0 * (SELECT count(*) FROM rows))"
    limit = (
        f"(SELECT __length FROM (SELECT {length} AS __length, row_number() OVER (ORDER BY {length}) AS __rank"
        f" FROM rows) WHERE __rank = greatest(1, {rank}))"
    )
    replace_rows(connection, f"SELECT * FROM rows WHERE {length} <= {limit}")

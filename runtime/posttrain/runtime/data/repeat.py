"""Data op `repeat`: repeat every row, so that a small dataset has more weight in a mixture."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import replace_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params


class Repeat(Params):
    times: int = Field(ge=2, le=1000, description="The number of copies of each row in the output.")


def columns(params: Repeat, before: Columns) -> Columns:
    return before


EXTENSION = DataOp(
    name="repeat",
    summary="Repeat every row, to give a dataset more weight in a `mix`.",
    params=Repeat,
    columns=columns,
    rows=lambda params, rows: None if rows is None else params.times * rows,
    exact=True,
    stack=("duckdb",),
)


def run(params: Repeat, connection: Any, seed: int) -> None:
    """Change the table `rows`: append whole copies, so that the order of rows repeats."""
    (row_count,) = connection.execute("SELECT coalesce(max(__row) + 1, 0) FROM rows").fetchone()
    replace_rows(
        connection,
        f"SELECT * EXCLUDE (again) REPLACE (__row + again * {row_count} AS __row)"
        f" FROM rows CROSS JOIN range({params.times}) AS copies(again) ORDER BY __row",
    )

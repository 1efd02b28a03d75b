"""Rows several times over, so that a small set weighs more in a mixture."""

from typing import Any

from posttrain.runtime.data.row_tables import replace_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params


class Repeat(Params):
    times: int = field(ge=2, le=1000, description="How often each row is there in the end.")


def columns(params: Repeat, before: Columns) -> Columns:
    return before


EXTENSION = DataOp(
    name="repeat",
    summary="Have every row several times: a set weighs more so in a `mix`.",
    params=Repeat,
    columns=columns,
    rows=lambda params, rows: None if rows is None else params.times * rows,
    exact=True,
    stack=("duckdb",),
)


def run(params: Repeat, connection: Any, seed: int) -> None:
    """Change the table `rows`: all of them once, then all again."""
    (most,) = connection.execute("SELECT coalesce(max(__row) + 1, 0) FROM rows").fetchone()
    replace_rows(
        connection,
        f"SELECT * EXCLUDE (again) REPLACE (__row + again * {most} AS __row)"
        f" FROM rows CROSS JOIN range({params.times}) AS copies(again) ORDER BY __row",
    )

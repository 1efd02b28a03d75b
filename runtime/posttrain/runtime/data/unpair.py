"""Pairs of a better and a worse answer as single answers that are liked or not."""

from typing import Any

from posttrain.compiler.data.sql import quote_identifier
from posttrain.runtime.data.row_tables import check_columns, replace_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params


class Unpair(Params):
    chosen: str = field(default="chosen", description="The column of the better answers.")
    rejected: str = field(default="rejected", description="The column of the worse answers.")
    completion: str = field(default="completion", description="The column that receives each answer.")
    label: str = field(default="label", description="The column that says whether it is the better one.")


def columns(params: Unpair, before: Columns) -> Columns:
    check_columns(before, [params.chosen, params.rejected], "text", "messages")
    if before[params.chosen] != before[params.rejected]:
        raise ValueError(f"`{params.chosen}` and `{params.rejected}` are of different types")
    kept = {name: type for name, type in before.items() if name not in (params.chosen, params.rejected)}
    for name in (params.completion, params.label):
        if name in kept:
            raise ValueError(f"there is a column `{name}` already; rename it first")
    return {**kept, params.completion: before[params.chosen], params.label: "boolean"}


EXTENSION = DataOp(
    name="unpair",
    summary="Make two rows of each pair: the better answer, liked, and the worse one, not.",
    params=Unpair,
    columns=columns,
    rows=lambda _params, rows: None if rows is None else 2 * rows,
    exact=True,
    stack=("duckdb",),
)


def run(params: Unpair, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    chosen, rejected = quote_identifier(params.chosen), quote_identifier(params.rejected)
    kept = f"* EXCLUDE ({chosen}, {rejected}, __row, __part)"
    halves = [
        f"SELECT {kept}, {answer} AS {quote_identifier(params.completion)}, {liked} AS {quote_identifier(params.label)},"
        f" 2 * __row - {liked}::INT AS __row, __part FROM rows"
        for answer, liked in ((chosen, "true"), (rejected, "false"))
    ]
    replace_rows(connection, f"SELECT * FROM ({halves[0]} UNION ALL {halves[1]}) ORDER BY __row")

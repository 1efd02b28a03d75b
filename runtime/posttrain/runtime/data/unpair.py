"""Data op `unpair`: split preference pairs into single labeled answers."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, replace_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.sql_types import quote_identifier


class Unpair(Params):
    chosen: str = Field(default="chosen", description="The column of the better answers.")
    rejected: str = Field(default="rejected", description="The column of the worse answers.")
    completion: str = Field(default="completion", description="The output column of the answers.")
    label: str = Field(
        default="label", description="The output column of the labels: true for the better answer."
    )


def columns(params: Unpair, before: Columns) -> Columns:
    check_columns(before, [params.chosen, params.rejected], "text", "messages")
    if before[params.chosen] != before[params.rejected]:
        raise ValueError(f"`{params.chosen}` and `{params.rejected}` have different types")
    others = {name: type for name, type in before.items() if name not in (params.chosen, params.rejected)}
    for name in (params.completion, params.label):
        if name in others:
            raise ValueError(f"a column `{name}` already exists; rename it first")
    return {**others, params.completion: before[params.chosen], params.label: "boolean"}


EXTENSION = DataOp(
    name="unpair",
    summary="Split each pair into two rows: the better answer labeled true, the worse one false.",
    params=Unpair,
    columns=columns,
    rows=lambda _params, rows: None if rows is None else 2 * rows,
    exact=True,
    stack=("duckdb",),
    row_by_row=True,
)


def run(params: Unpair, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    chosen, rejected = quote_identifier(params.chosen), quote_identifier(params.rejected)
    columns_sql = f"* EXCLUDE ({chosen}, {rejected}, __row, __part)"
    halves = [
        f"SELECT {columns_sql}, {answer} AS {quote_identifier(params.completion)}, {label} AS"
        f" {quote_identifier(params.label)}, 2 * __row - {label}::INT AS __row, __part FROM rows"
        for answer, label in ((chosen, "true"), (rejected, "false"))
    ]
    replace_rows(connection, f"SELECT * FROM ({halves[0]} UNION ALL {halves[1]}) ORDER BY __row")

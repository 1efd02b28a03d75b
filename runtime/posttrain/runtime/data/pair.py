"""Scored answers to one prompt as a pair of the best and the worst."""

from typing import Any

from posttrain.compiler.data.sql import quote_identifier
from posttrain.runtime.data.row_tables import check_columns, replace_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params


class Pair(Params):
    by: str = field(default="prompt", description="Rows that agree in this column are answers to one prompt.")
    completion: str = field(default="completion", description="The column of the answers.")
    score: str = field(default="score", description="The column of numbers that says which is better.")
    margin: float = field(
        default=0.0, ge=0, description="By how much the best must lie above the worst; equal ones never pair."
    )


def columns(params: Pair, before: Columns) -> Columns:
    check_columns(before, [params.by, params.completion], "text", "messages")
    check_columns(before, [params.score], "number", "integer", "boolean")
    kept = {name: type for name, type in before.items() if name not in (params.completion, params.score)}
    for name in ("chosen", "rejected"):
        if name in kept:
            raise ValueError(f"there is a column `{name}` already; rename it first")
    type = before[params.completion]
    return {**kept, "chosen": type, "rejected": type}


EXTENSION = DataOp(
    name="pair",
    summary="Make one row of all answers to a prompt: the best as `chosen`, the worst as `rejected`.",
    params=Pair,
    columns=columns,
    rows=lambda _params, rows: None if rows is None else rows // 2,
    stack=("duckdb",),
)


def run(params: Pair, connection: Any, seed: int) -> None:
    """Change the table `rows`. Columns that are neither answer nor score are those of the best answer."""
    by, score, completion = (quote_identifier(name) for name in (params.by, params.score, params.completion))
    least = f"> {params.margin}" if params.margin == 0 else f">= {params.margin}"
    there = " AND ".join(f"{column} IS NOT NULL" for column in (by, score, completion))
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY __part, {by} ORDER BY {score} DESC, __row) AS __best,"
        f" first_value({completion}) OVER lowest AS rejected,"
        f" first_value(CAST({score} AS DOUBLE)) OVER lowest AS __lowest FROM rows WHERE {there}"
        f" WINDOW lowest AS (PARTITION BY __part, {by} ORDER BY {score}, __row)"
    )
    kept = f"* EXCLUDE ({completion}, {score}, rejected, __best, __lowest)"
    replace_rows(
        connection,
        f"SELECT {kept}, {completion} AS chosen, rejected FROM ({numbered})"
        f" WHERE __best = 1 AND CAST({score} AS DOUBLE) - __lowest {least} ORDER BY __row",
    )

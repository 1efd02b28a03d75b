"""Data op `pair`: build preference pairs from scored answers to the same prompt."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, replace_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.sql_types import quote_identifier


class Pair(Params):
    group_by: str = Field(
        default="prompt", description="The column to group by. Rows with the same value form one pair."
    )
    completion: str = Field(default="completion", description="The column of the answers.")
    score: str = Field(default="score", description="The column of the scores. Higher is better.")
    min_margin: float = Field(
        default=0.0,
        ge=0,
        description="The minimum difference between the best and the worst score. Equal scores never form"
        " a pair.",
    )


def columns(params: Pair, before: Columns) -> Columns:
    check_columns(before, [params.group_by, params.completion], "text", "messages")
    check_columns(before, [params.score], "number", "integer", "boolean")
    others = {name: type for name, type in before.items() if name not in (params.completion, params.score)}
    for name in ("chosen", "rejected"):
        if name in others:
            raise ValueError(f"a column `{name}` already exists; rename it first")
    type = before[params.completion]
    return {**others, "chosen": type, "rejected": type}


EXTENSION = DataOp(
    name="pair",
    summary="Combine all answers to a prompt into one row: the best as `chosen`, the worst as `rejected`.",
    params=Pair,
    columns=columns,
    rows=lambda _params, rows: None if rows is None else rows // 2,
    stack=("duckdb",),
)


def run(params: Pair, connection: Any, seed: int) -> None:
    """Change the table `rows`. All other columns have the values of the best answer's row."""
    group_by, score, completion = (
        quote_identifier(name) for name in (params.group_by, params.score, params.completion)
    )
    condition = f"> {params.min_margin}" if params.min_margin == 0 else f">= {params.min_margin}"
    not_null = " AND ".join(f"{column} IS NOT NULL" for column in (group_by, score, completion))
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY __part, {group_by} ORDER BY {score} DESC, __row)"
        " AS __best,"
        f" first_value({completion}) OVER lowest AS rejected,"
        f" first_value(CAST({score} AS DOUBLE)) OVER lowest AS __lowest FROM rows WHERE {not_null}"
        f" WINDOW lowest AS (PARTITION BY __part, {group_by} ORDER BY {score}, __row)"
    )
    columns_sql = f"* EXCLUDE ({completion}, {score}, rejected, __best, __lowest)"
    replace_rows(
        connection,
        f"SELECT {columns_sql}, {completion} AS chosen, rejected FROM ({numbered})"
        f" WHERE __best = 1 AND CAST({score} AS DOUBLE) - __lowest {condition} ORDER BY __row",
    )

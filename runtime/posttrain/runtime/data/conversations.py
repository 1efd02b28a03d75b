"""Data op `conversations`: convert conversations with other keys and role names to messages."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, with_column
from posttrain.runtime.errors import StepError
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.sql_types import quote_identifier

_ROLE_NAMES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}


class Conversations(Params):
    column: str = Field(default="conversations", description="The column of turns, as JSON.")
    output_column: str = Field(
        default="messages", min_length=1, description="The output column of the messages."
    )
    role_key: str = Field(default="from", description="The key of the role in a turn.")
    content_key: str = Field(default="value", description="The key of the content in a turn.")
    role_names: dict[str, str] = Field(
        default=_ROLE_NAMES,
        min_length=1,
        description="A mapping from the role names in the data to the roles of messages.",
    )


def columns(params: Conversations, before: Columns) -> Columns:
    check_columns(before, [params.column], "any", "list<any>")
    return {**before, params.output_column: "messages"}


EXTENSION = DataOp(
    name="conversations",
    summary="Convert conversations with other keys and role names to messages.",
    params=Conversations,
    columns=columns,
    exact=True,
    stack=("duckdb",),
)


def run(params: Conversations, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    turns = f"CAST({quote_identifier(params.column)} AS JSON[])"
    role, content = (f"(turn ->> {_json_path(key)})" for key in (params.role_key, params.content_key))
    known = ", ".join(_sql_string(name) for name in params.role_names)
    bad = connection.execute(
        f"SELECT __row, list_filter({turns}, lambda turn: coalesce({role} NOT IN ({known}), true) OR"
        f" {content} IS NULL)[1] AS turn FROM rows WHERE turn IS NOT NULL ORDER BY __row LIMIT 1"
    ).fetchone()
    if bad is not None:
        raise StepError(
            f"row {bad[0]}: cannot convert a turn of `{params.column}`: {str(bad[1])[:120]}",
            f"each turn needs `{params.content_key}`, and a `{params.role_key}` that is one of"
            f" {', '.join(params.role_names)}; set `role_names`, `role_key` or `content_key`",
        )
    whens = " ".join(
        f"WHEN {_sql_string(name)} THEN {_sql_string(role)}" for name, role in params.role_names.items()
    )
    turn = f"{{'role': CASE {role} {whens} END, 'content': {content}}}"
    with_column(connection, params.output_column, f"list_transform({turns}, lambda turn: {turn})")


def _sql_string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _json_path(key: str) -> str:
    return _sql_string('$."' + key.replace('"', '\\"') + '"')

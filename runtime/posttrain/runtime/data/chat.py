"""Data op `chat`: build conversations from columns."""

from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, with_column
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.field_types import Items, checked_by
from posttrain.spec.sql_types import quote_identifier, sql_type

_ROLES = ("system", "developer", "user", "assistant", "tool")


def _check_turns(turns: list[dict[str, Any]]) -> None:
    for turn in turns:
        if len(turn) != 1 or next(iter(turn)) not in _ROLES:
            raise ValueError(f"a turn is {{ROLE: COLUMN}}, with one of the roles {', '.join(_ROLES)}")
        value = next(iter(turn.values()))
        if isinstance(value, dict) and set(value) != {"text"}:
            raise ValueError("the content of a turn is a column or {text: TEXT}")


class Chat(Params):
    turns: Annotated[
        Items[dict[str, str | dict[str, str]]], Field(min_length=1), checked_by(_check_turns)
    ] = Field(
        description="The turns in order, each {ROLE: COLUMN} or {ROLE: {text: TEXT}}. The roles are system,"
        " developer, user, assistant and tool. A turn is omitted in rows where its column is null.",
    )
    output_column: str = Field(
        default="messages", min_length=1, description="The output column of the conversations."
    )


def columns(params: Chat, before: Columns) -> Columns:
    values = [next(iter(turn.values())) for turn in params.turns]
    check_columns(before, [column for column in values if isinstance(column, str)], "text")
    return {**before, params.output_column: "messages"}


EXTENSION = DataOp(
    name="chat",
    summary="Build conversations from columns.",
    params=Chat,
    columns=columns,
    exact=True,
    stack=("duckdb",),
    row_by_row=True,
)


def run(params: Chat, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    turns: list[str] = []
    values: list[str] = []
    for turn in params.turns:
        role, value = next(iter(turn.items()))
        if isinstance(value, dict):
            values.append(value["text"])
        content = "CAST(? AS VARCHAR)" if isinstance(value, dict) else quote_identifier(value)
        turns.append(f"{{'role': '{role}', 'content': {content}}}")
    expression = f"list_filter([{', '.join(turns)}], lambda turn: turn.content IS NOT NULL)"
    with_column(connection, params.output_column, f"CAST({expression} AS {sql_type('messages')})", values)

"""Columns as the turns of a conversation."""

from typing import Any

from posttrain.compiler.data.sql import quote_identifier
from posttrain.runtime.data.row_tables import check_columns, with_column
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params

_ROLES = ("system", "user", "assistant", "tool")


def _check_turns(turns: list[dict[str, Any]]) -> None:
    for turn in turns:
        if len(turn) != 1 or next(iter(turn)) not in _ROLES:
            raise ValueError(f"a turn is one of {', '.join(_ROLES)} with a column or {{text: ...}}")
        given = next(iter(turn.values()))
        if isinstance(given, dict) and set(given) != {"text"}:
            raise ValueError("words of your own are written {text: ...}")


class Chat(Params):
    turns: list[dict[str, str | dict[str, str]]] = field(
        min_length=1,
        check=_check_turns,
        description="The turns in order, each {ROLE: COLUMN} or {ROLE: {text: WORDS}}; roles are system,"
        " user, assistant and tool. A turn without a value is left out.",
    )
    to: str = field(default="messages", min_length=1, description="The column that receives them.")


def columns(params: Chat, before: Columns) -> Columns:
    given = [next(iter(turn.values())) for turn in params.turns]
    check_columns(before, [column for column in given if isinstance(column, str)], "text")
    return {**before, params.to: "messages"}


EXTENSION = DataOp(
    name="chat",
    summary="Make the turns of a conversation from columns.",
    params=Chat,
    columns=columns,
    exact=True,
    stack=("duckdb",),
)


def run(params: Chat, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    turns: list[str] = []
    values: list[str] = []
    for turn in params.turns:
        role, given = next(iter(turn.items()))
        if isinstance(given, dict):
            values.append(given["text"])
        content = "CAST(? AS VARCHAR)" if isinstance(given, dict) else quote_identifier(given)
        turns.append(f"{{'role': '{role}', 'content': {content}}}")
    made = f"list_filter([{', '.join(turns)}], lambda turn: turn.content IS NOT NULL)"
    with_column(connection, params.to, made, values)

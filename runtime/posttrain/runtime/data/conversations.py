"""Data op `conversations`: convert conversations with other keys and role names to messages."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, with_column
from posttrain.runtime.errors import StepError
from posttrain.runtime.turn_fields import check_turn_fields
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.field_types import Items
from posttrain.spec.message_fields import describe_field
from posttrain.spec.sql_types import quote_identifier

_ROLE_NAMES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}


_KEY_ADVICE = "filter out such rows, or add the key to `ignored_keys` if the model does not need it"


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
    ignored_keys: Items[str] = Field(
        default=(),
        description="Keys of turns that the messages do not need, such as ids. Any other key with a value is"
        " an error, because messages have only `role` and `content`.",
    )


def columns(params: Conversations, before: Columns) -> Columns:
    check_columns(before, [params.column], "any", "list<any>")
    return {**before, params.output_column: "messages"}


def check_known_fields(params: Conversations, fields: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ValueError for keys of turns that the messages would not have."""
    known = (params.role_key, params.content_key, *params.ignored_keys)
    for name, place in fields.get(params.column, {}).items():
        if name not in known:
            lost = f"the key {describe_field(name)}, which would be lost"
            raise ValueError(f"{place}: a turn of `{params.column}` has {lost}; {_KEY_ADVICE}")


EXTENSION = DataOp(
    name="conversations",
    summary="Convert conversations with other keys and role names to messages.",
    params=Conversations,
    columns=columns,
    check_turn_fields=check_known_fields,
    exact=True,
    version=2,
    stack=("duckdb",),
)


def run(params: Conversations, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    turns = f"CAST({quote_identifier(params.column)} AS JSON[])"
    role, content = (f"(turn ->> {_json_path(key)})" for key in (params.role_key, params.content_key))
    known = ", ".join(_sql_string(name) for name in params.role_names)
    is_nested = f"json_type(turn, {_json_path(params.content_key)}) IN ('ARRAY', 'OBJECT')"
    is_bad = f"coalesce({role} NOT IN ({known}), true) OR {content} IS NULL OR {is_nested}"
    bad = connection.execute(
        f"SELECT __row, list_filter({turns}, lambda turn: {is_bad})[1] AS turn FROM rows"
        " WHERE turn IS NOT NULL ORDER BY __row LIMIT 1"
    ).fetchone()
    if bad is not None:
        raise StepError(
            f"row {bad[0]}: cannot convert a turn of `{params.column}`: {str(bad[1])[:120]}",
            f"each turn needs text for `{params.content_key}`, and a `{params.role_key}` that is one of"
            f" {', '.join(params.role_names)}; set `role_names`, `role_key` or `content_key`",
        )
    keys = (params.role_key, params.content_key, *params.ignored_keys)
    check_turn_fields(connection, "rows", params.column, keys, _KEY_ADVICE)
    whens = " ".join(
        f"WHEN {_sql_string(name)} THEN {_sql_string(role)}" for name, role in params.role_names.items()
    )
    turn = f"{{'role': CASE {role} {whens} END, 'content': {content}}}"
    with_column(connection, params.output_column, f"list_transform({turns}, lambda turn: {turn})")


def _sql_string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _json_path(key: str) -> str:
    return _sql_string('$."' + key.replace('"', '\\"') + '"')

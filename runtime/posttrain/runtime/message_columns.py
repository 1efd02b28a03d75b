"""Columns of messages in the database and in Parquet files.

In a table, every message has all fields of `MESSAGE_FIELDS`, with nulls. Rows that steps read have only the
fields with a value, and the arguments of tool calls as objects.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from posttrain.runtime.errors import StepError
from posttrain.spec.column_types import Type
from posttrain.spec.message_fields import MESSAGE_FIELDS
from posttrain.spec.messages import Message, is_plain, load_message, parse_message, stored_message
from posttrain.spec.sql_types import column_type, quote_identifier, sql_type

_NUMBER = "__message_row"
_CONVERTED = "converted_messages"


def widen_messages(connection: Any, table: str) -> None:
    """Give the messages of a table all fields. Expressions of recipes can build them without some."""
    wide = _wide_type(connection)
    narrow = [
        str(row[0])
        for row in connection.execute(f"DESCRIBE {table}").fetchall()
        if row[1] != wide and column_type(str(row[1])) == "messages"
    ]
    if narrow:
        casts = ", ".join(
            f"CAST({name} AS {sql_type('messages')}) AS {name}" for name in map(quote_identifier, narrow)
        )
        connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * REPLACE ({casts}) FROM {table}")


def convert_messages(
    connection: Any, table: str, column: str, convert: Callable[[Any], list[Message]], advice: str
) -> None:
    """Replace a column of turns by the messages that `convert` returns for their parsed JSON.

    `convert` raises ValueError with the cause for turns that it cannot convert.
    """
    found: list[str | None] = []
    for number, value in read_json_column(connection, table, column, "row_number() OVER ()"):
        try:
            found.append(None if value is None else stored_json(convert(value)))
        except ValueError as error:
            raise StepError(f"row {number}, `{column}`, {error}", advice) from None
    set_columns(connection, table, {column: (found, "messages")})


def read_json_column(connection: Any, table: str, column: str, row_number: str) -> Iterator[tuple[int, Any]]:
    """The number of each row, in order, with the parsed JSON of a column."""
    turns = f"CAST(to_json({quote_identifier(column)}) AS VARCHAR)"
    for number, text in connection.execute(f"SELECT {row_number}, {turns} FROM {table}").fetchall():
        yield number, None if text is None else json.loads(text)


def set_columns(
    connection: Any, table: str, columns: Mapping[str, tuple[Sequence[str | None], Type]]
) -> None:
    """Add or replace columns, with a value for each row, in order: text, or the JSON text of messages or
    of any value."""
    import pyarrow

    described = [str(row[0]) for row in connection.execute(f"DESCRIBE {table}").fetchall()]
    values = {name: pyarrow.array(values, pyarrow.string()) for name, (values, _) in columns.items()}
    rows = len(next(iter(values.values())))
    connection.register(_CONVERTED, pyarrow.table({_NUMBER: range(1, rows + 1), **values}))
    listed = ", ".join(
        _converted(name, columns[name][1]) if name in columns else f"numbered.{quote_identifier(name)}"
        for name in dict.fromkeys((*described, *columns))
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} AS SELECT {listed}"
        f" FROM (SELECT *, row_number() OVER () AS {_NUMBER} FROM {table}) AS numbered"
        f" JOIN {_CONVERTED} AS converted USING ({_NUMBER}) ORDER BY {_NUMBER}"
    )
    connection.unregister(_CONVERTED)


def _converted(name: str, type: Type) -> str:
    value = f"converted.{quote_identifier(name)}"
    if type == "text":
        return f"{value} AS {quote_identifier(name)}"
    parsed = f"CAST({value} AS JSON)"
    given = parsed if type == "any" else f"CAST({parsed} AS {sql_type(type)})"
    return f"{given} AS {quote_identifier(name)}"


def parse_turns(value: Any, *, drop_nulls: bool = False) -> list[Message]:
    """The canonical messages of parsed JSON. Raises ValueError with the number of the turn and the cause."""
    if not isinstance(value, list):
        raise ValueError("which is not a list of turns")
    return [
        parse_numbered(number, turn, drop_nulls=drop_nulls)
        for number, turn in enumerate(cast(list[Any], value), 1)
    ]


def parse_numbered(number: int, turn: Any, *, drop_nulls: bool = False) -> Message:
    try:
        return parse_message(turn, drop_nulls=drop_nulls)
    except ValueError as error:
        raise ValueError(f"turn {number}: {error}") from None


def load_message_columns(rows: Sequence[dict[str, Any]], schema: Any) -> None:
    """Convert the messages in rows of a Parquet table to the form that chat templates read, in place."""
    for name in (field.name for field in schema if has_messages(field.type)):
        for row in rows:
            if row[name] is not None:
                row[name] = [turn if turn is None else load_message(turn) for turn in row[name]]


def messages_array(values: Sequence[Any]) -> Any:
    """An Arrow array of messages with all fields, or None if the values are no messages with tool fields."""
    import pyarrow

    turns = [turn for value in values if isinstance(value, list) for turn in cast(list[Any], value)]
    if not turns or not all(isinstance(turn, Mapping) and "role" in turn for turn in turns):
        return None
    typed = cast(list[Mapping[str, Any]], turns)
    if all(is_plain(turn) for turn in typed) or any(turn.keys() - set(MESSAGE_FIELDS) for turn in typed):
        return None
    stored = [
        None if value is None else [stored_message(parse_message(turn)) for turn in value] for value in values
    ]
    return pyarrow.array(stored, type=_arrow_type())


def stored_json(messages: Sequence[Message]) -> str:
    """Canonical messages as the JSON text that a column of messages is made from."""
    return json.dumps([stored_message(message) for message in messages], ensure_ascii=False)


def _wide_type(connection: Any) -> str:
    """The type of messages as the database writes it."""
    query = f"DESCRIBE SELECT CAST(NULL AS {sql_type('messages')}) AS messages"
    return str(connection.execute(query).fetchone()[1])


def has_messages(type: Any) -> bool:
    """Whether an Arrow type is that of messages."""
    import pyarrow.types as types

    if not types.is_list(type) or not types.is_struct(type.value_type):
        return False
    names = {type.value_type.field(index).name for index in range(type.value_type.num_fields)}
    return {"role", "content"} <= names <= set(MESSAGE_FIELDS)


def _arrow_type() -> Any:
    import pyarrow

    text = pyarrow.string()
    function = pyarrow.struct([("name", text), ("arguments", text)])
    calls = pyarrow.list_(pyarrow.struct([("id", text), ("function", function)]))
    types = {"tool_calls": calls, "weight": pyarrow.float64()}
    return pyarrow.list_(pyarrow.struct([(name, types.get(name, text)) for name in MESSAGE_FIELDS]))

"""Casts columns of JSON, text or database types to the types that a recipe declares.

A cast never rounds a value, drops it or makes it null. A value that does not fit its column is an error that
names the row.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from posttrain.runtime.chat_prompts import TOOLS
from posttrain.runtime.errors import StepError
from posttrain.runtime.message_columns import convert_messages, parse_turns, read_json_column, set_columns
from posttrain.runtime.sources.type_inference import is_readable_as, mismatch_message
from posttrain.runtime.turn_fields import LOST_FIELD_ADVICE, has_other_fields
from posttrain.spec.column_types import Columns, Type
from posttrain.spec.messages import without_nulls
from posttrain.spec.sql_types import column_type, quote_identifier, sql_type, struct_fields

_COLUMNS_PER_QUERY = 500
_STRUCT_ARGUMENTS = re.compile(r'\barguments"? STRUCT\(')
_TOOL_TYPES = ("any", "list<any>", "text")
_JSON_TYPES = {
    "text": "'VARCHAR', 'BIGINT', 'UBIGINT', 'DOUBLE', 'BOOLEAN'",
    "integer": "'BIGINT', 'UBIGINT'",
    "number": "'BIGINT', 'UBIGINT', 'DOUBLE'",
    "boolean": "'BOOLEAN'",
}


def load_json_columns(connection: Any, table: str, columns: Columns) -> None:
    """Create the table `source` from a table whose columns are all JSON."""
    talks = [name for name, type in columns.items() if type == "messages"]
    full = [name for name in talks if has_other_fields(connection, table, name)]
    for name in full:
        _convert_turns(connection, table, name)
    others = {name: type for name, type in columns.items() if name not in full}
    for group in _column_groups(others):
        bad = [f"count_if({_misfit_condition(name, columns[name])})" for name in group]
        counts = connection.execute(f"SELECT {', '.join(bad)} FROM {table}").fetchone()
        for name, count in zip(group, counts, strict=True):
            if count:
                _report_misfit(connection, table, name, columns[name])
    _create_source(
        connection,
        table,
        {
            name: _cast_expression(quote_identifier(name), type) if name in others else quote_identifier(name)
            for name, type in columns.items()
        },
    )


def load_text_columns(connection: Any, table: str, columns: Columns) -> None:
    """Create the table `source` from a table whose columns are all text, as read from CSV or TSV."""
    as_json = [
        f"{_parse_expression(quote_identifier(name), type)} AS {quote_identifier(name)}"
        for name, type in columns.items()
    ]
    connection.execute(f"CREATE TABLE as_json AS SELECT {', '.join(as_json)} FROM {table}")
    load_json_columns(connection, "as_json", columns)
    connection.execute("DROP TABLE as_json")


def load_typed_columns(connection: Any, table: str, columns: Columns) -> None:
    """Create the table `source` from a table with typed columns, as read from Parquet."""
    rows = connection.execute(f"DESCRIBE {table}").fetchall()
    found = {str(row[0]): column_type(str(row[1])) for row in rows}
    sql_types = {str(row[0]): str(row[1]) for row in rows}
    check_columns_exist(columns, found)
    for name, type in columns.items():
        if type == "messages" and _has_turns(sql_types[name]):
            _load_typed_turns(connection, table, name, sql_types[name])
        elif name == TOOLS and type in _TOOL_TYPES and "STRUCT(" in sql_types[name]:
            _load_typed_tools(connection, table, name)
        elif not is_readable_as(type, found[name]):
            raise StepError(mismatch_message(name, type, sql_types[name]))
    _create_source(
        connection,
        table,
        {name: _convert_expression(quote_identifier(name), type) for name, type in columns.items()},
    )


def _convert_turns(connection: Any, table: str, name: str, *, drop_nulls: bool = False) -> None:
    """Parse turns with tool calls and other fields. Others take the faster casts."""
    convert_messages(
        connection, table, name, lambda turns: parse_turns(turns, drop_nulls=drop_nulls), LOST_FIELD_ADVICE
    )


def _load_typed_turns(connection: Any, table: str, name: str, sql: str) -> None:
    fields = struct_fields(sql.removesuffix("[]")) or {}
    if "content" not in fields or has_other_fields(connection, table, name):
        # A column of structs has null for the arguments of the calls of other rows.
        _convert_turns(connection, table, name, drop_nulls=_STRUCT_ARGUMENTS.search(sql) is not None)
        return
    turn = "{'role': turn.role, 'content': turn.content}"
    column = quote_identifier(name)
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} AS SELECT * REPLACE"
        f" (list_transform({column}, lambda turn: {turn}) AS {column}) FROM {table}"
    )


def _load_typed_tools(connection: Any, table: str, name: str) -> None:
    """Store the tools as JSON. A column of structs has null for the parameters of other tools."""
    tools = [
        None if value is None else json.dumps(without_nulls(value), ensure_ascii=False)
        for _, value in read_json_column(connection, table, name, "row_number() OVER ()")
    ]
    set_columns(connection, table, {name: (tools, "any")})


def _has_turns(sql: str) -> bool:
    """Whether a database type can have messages: JSON, or a list of structs with a role."""
    if sql in ("JSON", "JSON[]"):
        return True
    fields = struct_fields(sql.removesuffix("[]")) or {}
    return sql.endswith("[]") and all(
        fields.get(name) in known for name, known in (("role", ("VARCHAR",)), ("content", ("VARCHAR", None)))
    )


def check_columns_exist(columns: Columns, found: Columns) -> None:
    for name in columns:
        if name not in found:
            listed = ", ".join(found) or "none"
            raise StepError(f"missing column `{name}`; the rows have {listed}", "correct `columns`")


def _create_source(connection: Any, table: str, expressions: dict[str, str]) -> None:
    listed = ", ".join(f"{value} AS {quote_identifier(name)}" for name, value in expressions.items())
    connection.execute(f"CREATE TABLE source AS SELECT {listed} FROM {table}")


def check_columns_not_empty(connection: Any, table: str, columns: Columns) -> None:
    """Raise StepError for a column that is null in every row: its name is probably wrong."""
    for group in _column_groups(columns):
        counts = ", ".join(f"count({quote_identifier(name)})" for name in group)
        rows, *values = connection.execute(f"SELECT count(*), {counts} FROM {table}").fetchone()
        for name, count in zip(group, values, strict=True):
            if rows and not count:
                raise StepError(f"the column `{name}` is null in every row", "correct `columns`")


def _column_groups(columns: Columns) -> Iterator[Sequence[str]]:
    """The columns in groups, one query for each.

    The time of a query grows with the width of the table. One query for each column takes minutes."""
    names = list(columns)
    for start in range(0, len(names), _COLUMNS_PER_QUERY):
        yield names[start : start + _COLUMNS_PER_QUERY]


def _misfit_condition(name: str, type: Type) -> str:
    """An SQL condition that is true if the JSON value of a column does not fit the type."""
    column = quote_identifier(name)
    not_null = f"{column} IS NOT NULL AND json_type({column}) != 'NULL'"
    return f"{not_null} AND NOT coalesce({_type_condition(column, type)}, false)"


def _report_misfit(connection: Any, table: str, name: str, type: Type) -> NoReturn:
    """Raise StepError for the first row whose value does not fit the type."""
    column = quote_identifier(name)
    row, value = connection.execute(
        f"SELECT row_number, {column} FROM (SELECT row_number() OVER () AS row_number, {column} FROM {table})"
        f" WHERE {_misfit_condition(name, type)} ORDER BY row_number LIMIT 1"
    ).fetchone()
    shown = str(value) if len(str(value)) <= 80 else f"{str(value)[:77]}..."
    raise StepError(
        f"row {row}: {mismatch_message(name, type, shown)}", "correct the row or declare another type"
    )


def _type_condition(value: str, type: Type, depth: int = 0) -> str:
    """An SQL condition that is true if the JSON value can be cast to this type."""
    if type in _JSON_TYPES:
        small = f" AND TRY_CAST({value} AS BIGINT) IS NOT NULL" if type == "integer" else ""
        return f"json_type({value}) IN ({_JSON_TYPES[type]}){small}"
    if type == "any":
        return "true"
    one = f"x{depth}"
    inner = _turn_condition(one) if type == "messages" else _type_condition(one, type[5:-1], depth + 1)
    empty = f"json_type({one}) != 'NULL' AND " if type == "messages" else f"json_type({one}) = 'NULL' OR "
    return (
        f"(json_type({value}) = 'ARRAY' AND len(list_filter(CAST({value} AS JSON[]),"
        f" lambda {one}: NOT ({empty}({inner})))) = 0)"
    )


def _turn_condition(value: str) -> str:
    return f"json_type({value}, '$.role') = 'VARCHAR' AND json_type({value}, '$.content') = 'VARCHAR'"


def _cast_expression(value: str, type: Type) -> str:
    """An SQL expression that casts the JSON value to this type."""
    if type == "any":
        return value
    if type == "messages":  # a cast to a struct rejects other fields, even without a value
        turn = "{'role': turn ->> '$.role', 'content': turn ->> '$.content'}"
        turns = f"list_transform(CAST({value} AS JSON[]), lambda turn: {turn})"
        return f"CAST({turns} AS {sql_type(type)})"
    return f"({value} ->> '$')" if type == "text" else f"CAST({value} AS {sql_type(type)})"


def _parse_expression(text: str, type: Type) -> str:
    """An SQL expression that parses text as JSON.

    Text that is not valid JSON becomes a JSON string; the check of its type reports it later.
    """
    if type == "text":
        return f"to_json({text})"
    low = f"lower(trim({text}))" if type == "boolean" else f"trim({text})"
    return f"CASE WHEN json_valid({low}) THEN CAST({low} AS JSON) ELSE to_json({text}) END"


def _convert_expression(value: str, type: Type) -> str:
    return f"to_json({value})" if type == "any" else f"CAST({value} AS {sql_type(type)})"

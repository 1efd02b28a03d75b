"""Rows of JSON values, or of a database's own types, as columns of the types that a recipe declares.

Nothing is rounded, dropped or made null on the way: a value that does not fit its column is an error
that names the row.
"""

from typing import Any

from posttrain.compiler.data.sql import quoted, sql_type, type_of
from posttrain.runtime.faults import StepFault
from posttrain.runtime.sources.inference import misdeclared, readable
from posttrain.spec.types import Columns, Type

_KINDS = {
    "text": "'VARCHAR', 'BIGINT', 'UBIGINT', 'DOUBLE', 'BOOLEAN'",
    "integer": "'BIGINT', 'UBIGINT'",
    "number": "'BIGINT', 'UBIGINT', 'DOUBLE'",
    "boolean": "'BOOLEAN'",
}


def from_json(connection: Any, table: str, columns: Columns) -> None:
    """Make the table `source` from one whose columns are all JSON."""
    for name, type in columns.items():
        _check_values(connection, table, name, type)
    _select(connection, table, {name: _value(quoted(name), type) for name, type in columns.items()})


def from_text(connection: Any, table: str, columns: Columns) -> None:
    """Make the table `source` from one whose columns are all text, as CSV has them."""
    as_json = [f"{_parsed(quoted(name), type)} AS {quoted(name)}" for name, type in columns.items()]
    connection.execute(f"CREATE TABLE as_json AS SELECT {', '.join(as_json)} FROM {table}")
    from_json(connection, "as_json", columns)
    connection.execute("DROP TABLE as_json")


def from_types(connection: Any, table: str, columns: Columns) -> None:
    """Make the table `source` from one with types of its own, as Parquet has them."""
    rows = connection.execute(f"DESCRIBE {table}").fetchall()
    found = {str(row[0]): type_of(str(row[1])) for row in rows}
    kinds = {str(row[0]): str(row[1]) for row in rows}
    check_there(columns, found)
    for name, type in columns.items():
        if not readable(type, found[name]):
            raise StepFault(misdeclared(name, type, kinds[name]))
    _select(connection, table, {name: _converted(quoted(name), type) for name, type in columns.items()})


def check_there(columns: Columns, found: Columns) -> None:
    for name in columns:
        if name not in found:
            listed = ", ".join(found) or "none"
            raise StepFault(f"the rows have no column `{name}`; they have {listed}", "mend `columns`")


def _select(connection: Any, table: str, made: dict[str, str]) -> None:
    listed = ", ".join(f"{value} AS {quoted(name)}" for name, value in made.items())
    connection.execute(f"CREATE TABLE source AS SELECT {listed} FROM {table}")


def check_some(connection: Any, table: str, columns: Columns) -> None:
    """A fault for a column that no row has: its name is mistaken."""
    for name in columns:
        some, rows = connection.execute(f"SELECT count({quoted(name)}), count(*) FROM {table}").fetchone()
        if rows and not some:
            raise StepFault(f"no row has anything in the column `{name}`", "mend `columns`")


def _check_values(connection: Any, table: str, name: str, type: Type) -> None:
    """A fault for the first row whose value does not fit."""
    column = quoted(name)
    there = f"{column} IS NOT NULL AND json_type({column}) != 'NULL'"
    bad = connection.execute(
        f"SELECT place, {column} FROM (SELECT row_number() OVER () AS place, {column} FROM {table})"
        f" WHERE {there} AND NOT coalesce({_fits(column, type)}, false)"
        " ORDER BY place LIMIT 1"
    ).fetchone()
    if bad is not None:
        shown = str(bad[1]) if len(str(bad[1])) <= 80 else f"{str(bad[1])[:77]}..."
        raise StepFault(
            f"row {bad[0]}: {misdeclared(name, type, shown)}",
            "mend the row, or declare another type",
        )


def _fits(value: str, type: Type, depth: int = 0) -> str:
    """An SQL condition: the JSON value can be read as this type."""
    if type in _KINDS:
        small = f" AND TRY_CAST({value} AS BIGINT) IS NOT NULL" if type == "integer" else ""
        return f"json_type({value}) IN ({_KINDS[type]}){small}"
    if type == "any":
        return "true"
    one = f"x{depth}"
    inner = _is_turn(one) if type == "messages" else _fits(one, type[5:-1], depth + 1)
    empty = f"json_type({one}) != 'NULL' AND " if type == "messages" else f"json_type({one}) = 'NULL' OR "
    return (
        f"(json_type({value}) = 'ARRAY' AND len(list_filter(CAST({value} AS JSON[]),"
        f" lambda {one}: NOT ({empty}({inner})))) = 0)"
    )


def _is_turn(value: str) -> str:
    return f"json_type({value}, '$.role') = 'VARCHAR' AND json_type({value}, '$.content') = 'VARCHAR'"


def _value(value: str, type: Type) -> str:
    """An SQL expression: the JSON value as this type."""
    if type == "any":
        return value
    return f"({value} ->> '$')" if type == "text" else f"CAST({value} AS {sql_type(type)})"


def _parsed(text: str, type: Type) -> str:
    """An SQL expression: text as JSON of this type; what is none stays text, to be told by its row."""
    if type == "text":
        return f"to_json({text})"
    low = f"lower(trim({text}))" if type == "boolean" else f"trim({text})"
    return f"CASE WHEN json_valid({low}) THEN CAST({low} AS JSON) ELSE to_json({text}) END"


def _converted(value: str, type: Type) -> str:
    return f"to_json({value})" if type == "any" else f"CAST({value} AS {sql_type(type)})"

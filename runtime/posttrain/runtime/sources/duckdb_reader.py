"""Reads files of rows into the database, with the declared type for each column."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.sources.column_casting import (
    check_columns_exist,
    check_columns_not_empty,
    load_json_columns,
    load_text_columns,
    load_typed_columns,
)
from posttrain.spec.column_types import Columns

_JSON_FORMATS = {"jsonl": "newline_delimited", "json": "auto"}


def read_files(
    connection: Any, paths: Sequence[Path], formats: Sequence[str], columns: Columns, *, declared: bool = True
) -> None:
    """Create the table `source` from the rows of all files, in order.

    JSON and JSON Lines have no header. There, a declared column that no row has is an error.
    """
    for number, (path, kind) in enumerate(zip(paths, formats, strict=True)):
        _READERS[kind](connection, str(path), kind, columns)
        connection.execute(f"ALTER TABLE source RENAME TO piece{number}")
    pieces = " UNION ALL ".join(f"SELECT * FROM piece{number}" for number in range(len(paths)))
    connection.execute(f"CREATE TABLE source AS {pieces}")
    if declared and _JSON_FORMATS.keys() >= set(formats):
        check_columns_not_empty(connection, "source", columns)


def _json(connection: Any, path: str, kind: str, columns: Columns) -> None:
    json_columns = "{" + ", ".join(f"{_sql_string(name)}: 'JSON'" for name in columns) + "}"
    connection.execute(
        "CREATE OR REPLACE TABLE input_rows AS SELECT * FROM"
        f" read_json(?, format='{_JSON_FORMATS[kind]}', columns={json_columns})",
        [path],
    )
    load_json_columns(connection, "input_rows", columns)


def _csv(connection: Any, path: str, kind: str, columns: Columns) -> None:
    connection.execute(
        "CREATE OR REPLACE TABLE input_rows AS SELECT * FROM"
        " read_csv(?, header=true, all_varchar=true, delim=',', quote='\"', escape='\"')",
        [path],
    )
    described = connection.execute("DESCRIBE input_rows").fetchall()
    check_columns_exist(columns, {str(row[0]): "text" for row in described})
    load_text_columns(connection, "input_rows", columns)


def _parquet(connection: Any, path: str, kind: str, columns: Columns) -> None:
    connection.execute("CREATE OR REPLACE TABLE input_rows AS SELECT * FROM read_parquet(?)", [path])
    load_typed_columns(connection, "input_rows", columns)


def _sql_string(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


_READERS = {"jsonl": _json, "json": _json, "csv": _csv, "parquet": _parquet}

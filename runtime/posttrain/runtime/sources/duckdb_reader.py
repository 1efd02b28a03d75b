"""Reads files of rows into the database, each column as the type that it is declared to have."""

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
    """Make the table `source` of all files' rows, in order.

    JSON names the columns in each row: one that is declared, and that no row has, has a mistaken name.
    """
    for number, (path, kind) in enumerate(zip(paths, formats, strict=True)):
        _READERS[kind](connection, str(path), kind, columns)
        connection.execute(f"ALTER TABLE source RENAME TO piece{number}")
    pieces = " UNION ALL ".join(f"SELECT * FROM piece{number}" for number in range(len(paths)))
    connection.execute(f"CREATE TABLE source AS {pieces}")
    if declared and _JSON_FORMATS.keys() >= set(formats):
        check_columns_not_empty(connection, "source", columns)


def _json(connection: Any, path: str, kind: str, columns: Columns) -> None:
    shape = "{" + ", ".join(f"{_sql_string(name)}: 'JSON'" for name in columns) + "}"
    connection.execute(
        "CREATE OR REPLACE TABLE given AS SELECT * FROM"
        f" read_json(?, format='{_JSON_FORMATS[kind]}', columns={shape})",
        [path],
    )
    load_json_columns(connection, "given", columns)


def _csv(connection: Any, path: str, kind: str, columns: Columns) -> None:
    connection.execute(
        "CREATE OR REPLACE TABLE given AS SELECT * FROM"
        " read_csv(?, header=true, all_varchar=true, delim=',', quote='\"', escape='\"')",
        [path],
    )
    found = connection.execute("DESCRIBE given").fetchall()
    check_columns_exist(columns, {str(row[0]): "text" for row in found})
    load_text_columns(connection, "given", columns)


def _parquet(connection: Any, path: str, kind: str, columns: Columns) -> None:
    connection.execute("CREATE OR REPLACE TABLE given AS SELECT * FROM read_parquet(?)", [path])
    load_typed_columns(connection, "given", columns)


def _sql_string(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


_READERS = {"jsonl": _json, "json": _json, "csv": _csv, "parquet": _parquet}

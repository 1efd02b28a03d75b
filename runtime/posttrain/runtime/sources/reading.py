"""Reads files of rows into the database, each column as the type that it is declared to have."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.sources.casting import check_some, check_there, from_json, from_text, from_types
from posttrain.spec.types import Columns

_SHAPES = {"jsonl": "newline_delimited", "json": "auto"}


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
    if declared and _SHAPES.keys() >= set(formats):
        check_some(connection, "source", columns)


def _json(connection: Any, path: str, kind: str, columns: Columns) -> None:
    shape = "{" + ", ".join(f"{_text(name)}: 'JSON'" for name in columns) + "}"
    connection.execute(
        "CREATE OR REPLACE TABLE given AS SELECT * FROM"
        f" read_json(?, format='{_SHAPES[kind]}', columns={shape})",
        [path],
    )
    from_json(connection, "given", columns)


def _csv(connection: Any, path: str, kind: str, columns: Columns) -> None:
    connection.execute(
        "CREATE OR REPLACE TABLE given AS SELECT * FROM"
        " read_csv(?, header=true, all_varchar=true, delim=',', quote='\"', escape='\"')",
        [path],
    )
    found = connection.execute("DESCRIBE given").fetchall()
    check_there(columns, {str(row[0]): "text" for row in found})
    from_text(connection, "given", columns)


def _parquet(connection: Any, path: str, kind: str, columns: Columns) -> None:
    connection.execute("CREATE OR REPLACE TABLE given AS SELECT * FROM read_parquet(?)", [path])
    from_types(connection, "given", columns)


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


_READERS = {"jsonl": _json, "json": _json, "csv": _csv, "parquet": _parquet}

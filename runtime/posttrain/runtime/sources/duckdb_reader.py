"""Reads files of rows into the database, with the declared type for each column."""

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from posttrain.runtime.duckdb_files import compression_of, load_parquet, open_for_duckdb, write_parquet
from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.column_casting import (
    check_columns_exist,
    check_columns_not_empty,
    load_json_columns,
    load_text_columns,
    load_typed_columns,
)
from posttrain.runtime.sources.delimited_text import TextRow, read_rows
from posttrain.spec.column_types import Columns
from posttrain.spec.sql_types import quote_identifier

_BATCH_ROWS = 50_000
_JSON_FORMATS = {"jsonl": "newline_delimited", "json": "auto"}


def read_files(
    connection: Any, paths: Sequence[Path], formats: Sequence[str], columns: Columns, *, declared: bool = True
) -> None:
    """Create the table `source` from the rows of all files, in order.

    JSON and JSON Lines have no header. There, a declared column that no row has is an error.
    """
    for number, (path, kind) in enumerate(zip(paths, formats, strict=True)):
        _READERS[kind](connection, path, kind, columns)
        connection.execute(f"ALTER TABLE source RENAME TO piece{number}")
    pieces = " UNION ALL ".join(f"SELECT * FROM piece{number}" for number in range(len(paths)))
    connection.execute(f"CREATE TABLE source AS {pieces}")
    if declared and _JSON_FORMATS.keys() >= set(formats):
        check_columns_not_empty(connection, "source", columns)


def _json(connection: Any, path: Path, kind: str, columns: Columns) -> None:
    with open_for_duckdb([path]) as files:
        connection.execute(
            f"CREATE OR REPLACE TABLE input_rows AS SELECT * FROM {_json_table(path, kind, columns)}", [files]
        )
    load_json_columns(connection, "input_rows", columns)


def _json_table(path: Path, kind: str, columns: Iterable[str]) -> str:
    """The rows of a JSON file in SQL, with each value as JSON. The parameter is the list of files."""
    listed = ", ".join(f"{_sql_string(name)}: 'JSON'" for name in columns)
    options = f"format='{_JSON_FORMATS[kind]}', compression='{compression_of(path)}', records='true'"
    return f"read_json($1, {options}, columns={{{listed}}})"


def copy_json(path: Path, columns: Sequence[str], target: Path) -> str | None:
    """Copy columns of a file of JSON objects, each value as JSON text, to a Parquet file.

    Returns a column that the file has rows without: no row has a value for it.
    """
    import duckdb

    quoted = list(map(quote_identifier, columns))
    listed = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in quoted)
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    with open_for_duckdb([path]) as files:
        query = f"SELECT {listed} FROM {_json_table(path, 'json', columns)}"
        write_parquet(connection, query, [files], target)
    counts = ", ".join(f"count({name})" for name in quoted)
    with open_for_duckdb([target]) as files:
        found = connection.execute(f"SELECT count(*), {counts} FROM read_parquet($1)", [files])
    rows, *known = found.fetchone() or (0,)
    connection.close()
    return next((name for name, count in zip(columns, known, strict=True) if rows and not count), None)


def _delimited(connection: Any, path: Path, kind: str, columns: Columns) -> None:
    """Load CSV or TSV with the compiler's parser: that of DuckDB guesses at comments and skipped lines."""
    import pyarrow

    connection.execute("DROP TABLE IF EXISTS input_rows")
    with pyarrow.input_stream(str(path), compression="detect") as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            rows = iter(read_rows(path.name, kind, text))
            _load_batches(connection, rows, columns)
        except ValueError as error:
            raise StepError(str(error), "correct the file, or save it again as UTF-8") from None
    load_text_columns(connection, "input_rows", columns)


def _load_batches(connection: Any, rows: Iterator[tuple[int, TextRow]], columns: Columns) -> None:
    """Create the table `input_rows` from text rows."""
    import pyarrow

    listed = ", ".join(f"{quote_identifier(name)} VARCHAR" for name in columns)
    connection.execute(f"CREATE TABLE input_rows ({listed})")
    is_first = True
    while batch := [row for _, row in islice(rows, _BATCH_ROWS)]:
        if is_first:
            check_columns_exist(columns, dict.fromkeys(batch[0], "text"))
            is_first = False
        cells = {name: pyarrow.array([row[name] for row in batch], type=pyarrow.string()) for name in columns}
        connection.register("cells", pyarrow.table(cells))
        connection.execute("INSERT INTO input_rows SELECT * FROM cells")
        connection.unregister("cells")


def _parquet(connection: Any, path: Path, kind: str, columns: Columns) -> None:
    load_parquet(connection, "input_rows", [path])
    load_typed_columns(connection, "input_rows", columns)


def _sql_string(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


_READERS = {"jsonl": _json, "json": _json, "csv": _delimited, "tsv": _delimited, "parquet": _parquet}

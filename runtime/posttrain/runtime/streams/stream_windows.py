"""The rows of a window of a stream, after the steps of its dataset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.data.operations import apply_operation, create_rows, write_parts
from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.column_casting import load_json_columns, load_typed_columns
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.streams.row_stream import RowStream
from posttrain.runtime.streams.stream_files import OpenedFile
from posttrain.runtime.training_rows.arrow_cache import cached_entry, part_file
from posttrain.runtime.training_rows.parquet_rows import MappedRows, convert_parquet, map_files
from posttrain.spec.sql_types import quote_identifier

_PART = "all"


def window_rows(
    context: StepContext[Any], stream: RowStream, file: OpenedFile, window: int, folder: Path
) -> MappedRows:
    """The rows of a window of a file, mapped into memory."""
    start, stop = file.windows[window]
    parts = {
        "file": file.key,
        "window": [start, stop],
        "columns": sorted(stream.columns.items()),
        "operations": [operation.model_dump(mode="json") for operation in stream.operations],
    }

    def build(target: Path) -> Mapping[str, Any]:
        built = target / f"{_PART}.parquet"
        _build(context, stream, file.table.slice(start, stop - start), target)
        convert_parquet(built, part_file(target, 0))
        built.unlink()
        (target / "parts.txt").unlink()
        return {}

    entry = cached_entry(folder, parts, build)
    return MappedRows(map_files(entry.files), entry.key)


def _build(context: StepContext[Any], stream: RowStream, table: Any, out: Path) -> None:
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": "1"})
    try:
        connection.register("given", table)
        _load_columns(connection, stream)
        connection.unregister("given")
        create_rows(connection)
        for operation in stream.operations:
            apply_operation(context, connection, operation)
        write_parts(connection, out)
    except duckdb.Error as error:
        raise StepError(f"cannot build the rows: {str(error).splitlines()[0]}", "fix the data") from None
    finally:
        connection.close()


def _load_columns(connection: Any, stream: RowStream) -> None:
    """Create the table `source`, with the declared types."""
    as_json = ", ".join(
        f"CAST({quote_identifier(name)} AS JSON) AS {quote_identifier(name)}" for name in stream.columns
    )
    listed = as_json if stream.reader == "json" else "*"
    connection.execute(f"CREATE TABLE input_rows AS SELECT {listed} FROM given")
    load = load_json_columns if stream.reader == "json" else load_typed_columns
    load(connection, "input_rows", dict(stream.columns))

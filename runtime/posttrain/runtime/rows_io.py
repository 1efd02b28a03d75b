"""Reads and writes the Parquet files of datasets and evals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.message_columns import load_message_columns, messages_array


def dataset_parts(folder: Path) -> list[str]:
    """The parts of a dataset, in declaration order."""
    return (folder / "parts.txt").read_text(encoding="utf-8").split()


def read_rows(folder: Path, part: str | None = None) -> list[dict[str, Any]]:
    """The rows of a dataset, or of one of its parts."""
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = []
    for name in [part] if part else dataset_parts(folder):
        table = parquet.read_table(folder / f"{name}.parquet")
        found = table.to_pylist()
        load_message_columns(found, table.schema)
        rows += found
    return rows


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows to a Parquet file. Equal rows produce equal bytes."""
    import pyarrow
    import pyarrow.parquet as parquet

    names = list(rows[0]) if rows else []
    columns = {name: [row[name] for row in rows] for name in names}
    table = pyarrow.table({name: _column_array(values) for name, values in columns.items()})
    parquet.write_table(table, path, compression="zstd")


def _column_array(values: Sequence[Any]) -> Any:
    messages = messages_array(values)
    return values if messages is None else messages

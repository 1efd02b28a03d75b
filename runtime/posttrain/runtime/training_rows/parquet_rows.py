"""Reads the Parquet files of a dataset as a table that is mapped into memory, or as batches of rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.message_columns import load_message_columns
from posttrain.runtime.rows_io import dataset_parts
from posttrain.runtime.training_rows.arrow_cache import cached_entry, part_file

# The rows of a record batch are in memory at once.
_BATCH_ROWS, _BATCH_BYTES = 4096, 8 << 20
_READ_BYTES = 1 << 20
_VALUES = 64


@dataclass(frozen=True)
class MappedRows:
    """The rows of a dataset, or of one of its parts, and the key of their content."""

    table: Any
    key: str

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Rows as Python objects, with messages as chat templates read them."""
        rows = self.table.slice(start, stop - start).to_pylist()
        load_message_columns(rows, self.table.schema)
        return rows

    def values(self, name: str) -> "ColumnValues":
        return ColumnValues(self.table[name])


@dataclass(frozen=True)
class ColumnValues:
    """The values of a column as Python objects, of which few exist at once."""

    column: Any

    def __iter__(self) -> Iterator[Any]:
        for chunk in self.column.chunks:
            for start in range(0, len(chunk), _VALUES):
                yield from chunk.slice(start, _VALUES).to_pylist()


def map_rows(folder: Path, part: str | None, cache: Path) -> MappedRows:
    """Map the rows of a dataset into memory. The first call writes them as an Arrow file into the cache."""
    files = [folder / f"{name}.parquet" for name in ([part] if part else dataset_parts(folder))]
    contents = {
        "batch": [_BATCH_ROWS, _BATCH_BYTES],
        "files": [atomic_io.sha256_file(file) for file in files],
    }

    def build(target: Path) -> Mapping[str, Any]:
        for number, file in enumerate(files):
            convert_parquet(file, part_file(target, number))
        return {}

    entry = cached_entry(cache, contents, build)
    return MappedRows(map_files(entry.files), entry.key)


def map_files(files: Sequence[Path]) -> Any:
    """One table of the rows in Arrow files."""
    import pyarrow

    tables = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(file))).read_all() for file in files]
    return pyarrow.concat_tables(tables)


def convert_parquet(file: Path, target: Path, columns: Sequence[str] | None = None) -> None:
    """Write the rows of a Parquet file, or some of its columns, as a stream of record batches.

    Reading ahead and in threads would hold several row groups in memory.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    with (
        parquet.ParquetFile(file, pre_buffer=False, buffer_size=_READ_BYTES) as source,
        pyarrow.OSFile(str(target), "wb") as sink,
    ):
        schema: Any = source.schema_arrow
        names = schema.names if columns is None else [name for name in schema.names if name in columns]
        chosen = schema if columns is None else pyarrow.schema([schema.field(name) for name in names])
        with pyarrow.ipc.new_stream(sink, chosen) as out:
            for batch in _batches(source, names):
                out.write_batch(batch)


def _batches(source: Any, columns: list[str]) -> Iterator[Any]:
    for number in range(source.metadata.num_row_groups):
        group = source.metadata.row_group(number)
        longest = max(1, group.total_byte_size // max(group.num_rows, 1))
        rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // longest))
        yield from source.iter_batches(
            batch_size=rows, row_groups=[number], columns=columns, use_threads=False
        )

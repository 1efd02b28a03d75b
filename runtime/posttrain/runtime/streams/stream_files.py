"""The files of a stream as Arrow files on the disk: downloaded, read and divided into windows."""

import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.duckdb_reader import copy_json
from posttrain.runtime.store.file_locks import acquire_lock, try_lock
from posttrain.runtime.streams.hub_files import download_file
from posttrain.runtime.streams.row_stream import RowStream
from posttrain.runtime.training_rows.arrow_cache import cached_entry, part_file
from posttrain.runtime.training_rows.parquet_rows import convert_parquet, map_files

# Windows have multiples of this many rows, unless so many have more bytes than a window.
_BLOCK_ROWS = 1000
_WINDOW_BYTES = 256 << 20
Range = tuple[int, int]


@dataclass(frozen=True)
class OpenedFile:
    """The rows of a file, mapped into memory, and the ranges of its windows."""

    key: str
    table: Any
    windows: Sequence[Range]


def open_file(stream: RowStream, number: int, folder: Path) -> OpenedFile:
    """The rows of a file of the stream. The first call downloads it; others wait until it has."""
    file = stream.files[number]
    parts = {
        "file": [file.checksum, stream.reader],
        "columns": sorted(stream.columns),
        "window": [stream.window_rows, _BLOCK_ROWS, _WINDOW_BYTES],
    }

    def build(target: Path) -> Mapping[str, Any]:
        downloads = folder / f"download-{number}"
        path = download_file(stream, file, downloads)
        arrow = part_file(target, 0)
        _write_rows(stream, path, arrow)
        shutil.rmtree(downloads, ignore_errors=True)
        return {"windows": list(_split(map_files([arrow]), stream.window_rows))}

    target = file_folder(folder, number)
    with use_folder(target):
        entry = cached_entry(target, parts, build)
        table = map_files(entry.files)
    windows = [(int(start), int(stop)) for start, stop in entry.facts["windows"]]
    return OpenedFile(entry.key, table, windows)


def file_folder(folder: Path, number: int) -> Path:
    return folder / f"file-{number}"


@contextmanager
def use_folder(folder: Path) -> Generator[None]:
    """Keep other processes from deleting a folder. Files that are mapped into memory outlive it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = acquire_lock(_lock_file(folder))
    try:
        yield
    finally:
        lock.release()


def delete_folder(folder: Path) -> None:
    """Delete a folder that no process uses now."""
    lock = try_lock(_lock_file(folder))
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        lock.discard()


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _split(table: Any, rows: int) -> Iterator[Range]:
    """Ranges of at most `rows` rows, or of fewer with as many bytes as a window may have."""
    start = stop = size = 0
    while stop < len(table):
        block = min(_BLOCK_ROWS, len(table) - stop)
        while block > 1 and table.slice(stop, block).nbytes > _WINDOW_BYTES:
            block //= 2
        bytes_of_block = table.slice(stop, block).nbytes
        if stop > start and (stop + block - start > rows or size + bytes_of_block > _WINDOW_BYTES):
            yield start, stop
            start, size = stop, 0
        stop, size = stop + block, size + bytes_of_block
    if stop > start:
        yield start, stop


def _write_rows(stream: RowStream, path: Path, target: Path) -> None:
    """Write the declared columns of a file as an Arrow file. Few of its rows are in memory at once."""
    import duckdb
    import pyarrow

    try:
        if stream.reader == "json":
            whole = target.with_suffix(".parquet")
            missing = copy_json(path, list(stream.columns), whole)
            if missing is not None:
                raise StepError(
                    f"no row of `{path.name}` of `{stream.repository}` has the column `{missing}`",
                    "correct `columns`",
                )
            convert_parquet(whole, target)
            whole.unlink()
        else:
            _check_columns(stream, path)
            convert_parquet(path, target, list(stream.columns))
    except (duckdb.Error, pyarrow.ArrowException) as error:
        raise StepError(
            f"cannot read `{path.name}` of `{stream.repository}`: {str(error).splitlines()[0]}",
            "check the file on the Hub, or stream another revision",
        ) from None


def _check_columns(stream: RowStream, path: Path) -> None:
    import pyarrow.parquet as parquet

    found = parquet.read_schema(path).names
    missing = [name for name in stream.columns if name not in found]
    if missing:
        raise StepError(
            f"missing column `{missing[0]}` in `{path.name}` of `{stream.repository}`; its columns are"
            f" {', '.join(found)}",
            "correct `columns`",
        )
    twice = [name for name in stream.columns if found.count(name) > 1]
    if twice:
        raise StepError(
            f"several columns `{twice[0]}` in `{path.name}` of `{stream.repository}`",
            "stream another dataset",
        )

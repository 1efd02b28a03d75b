"""Files that DuckDB reads and writes, whatever the names of their folders.

DuckDB interprets a path: `*`, `?` and `[` as wildcards, a folder `x=1` as a column `x`, a suffix as a
compression. A backslash before a wildcard cannot be escaped at all. So DuckDB gets the descriptor of an open
file as path.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@contextmanager
def open_for_duckdb(paths: Sequence[Path]) -> Generator[list[str]]:
    """Open files, and yield a path of each for a query. Errors of the query show the files' names."""
    import duckdb

    with ExitStack() as stack:
        files = {
            f"/proc/self/fd/{stack.enter_context(path.open('rb')).fileno()}": path.name for path in paths
        }
        try:
            yield list(files)
        except duckdb.Error as error:
            message = re.sub(r"/proc/self/fd/\d+", lambda found: files.get(found[0], found[0]), str(error))
            raise type(error)(message) from None


def load_parquet(connection: Any, table: str, paths: Sequence[Path]) -> None:
    """Create a table from the rows of Parquet files, in order."""
    with open_for_duckdb(paths) as files:
        connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM read_parquet(?)", [files])


def write_parquet(connection: Any, query: str, values: Sequence[Any], path: Path) -> None:
    """Write the result of a query to a Parquet file."""
    place = f"${len(values) + 1}"  # a parameter: a path in the text of a query would need quotes
    connection.execute(
        f"COPY ({query}) TO {place} (FORMAT parquet, COMPRESSION zstd)", [*values, str(path.absolute())]
    )


def compression_of(path: Path) -> str:
    """The compression of a file, from its suffix."""
    return _COMPRESSIONS.get(path.suffix, "none")

"""Streams the table `rows` through a function of the user, and checks every row that it returns.

Memory is independent of the number of rows: a bounded number of them exist as Python values.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from posttrain.runtime.data.returned_values import value_problem
from posttrain.runtime.errors import StepError
from posttrain.runtime.hosting.host_client import START_SECONDS, HostClient
from posttrain.runtime.sources.column_casting import load_json_columns
from posttrain.runtime.user_errors import describe_values
from posttrain.spec.column_types import Columns
from posttrain.spec.keys import digest
from posttrain.spec.sql_types import quote_identifier

Row = dict[str, Any]
_CALLS_PER_MESSAGE, _CHARACTERS_PER_MESSAGE = 64, 1_000_000
_ROWS_PER_INSERT, _CHARACTERS_PER_INSERT = 2000, 16_000_000
_ADVICE = "correct the function, or the rows before the step"


class RowFunctionParams(Protocol):
    """The parameters of the data step that the mapping needs."""

    @property
    def call(self) -> str: ...

    @property
    def file(self) -> str: ...

    @property
    def function(self) -> str: ...

    @property
    def with_(self) -> dict[str, Any]: ...

    @property
    def columns(self) -> Columns: ...

    @property
    def reads(self) -> Sequence[str]: ...

    @property
    def batched(self) -> bool: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def timeout_seconds(self) -> float: ...


@dataclass(frozen=True)
class _Call:
    """The rows of a call, which are in one part, and the number of the first."""

    part: str
    first: int
    rows: list[Row]


class RowFunction:
    """A function in its own process. A call has a seed, from the step's and the number of its first row."""

    def __init__(self, params: RowFunctionParams, paths: Mapping[str, Path], seed: int) -> None:
        self.params = params
        self._seed = seed
        folders = tuple(dict.fromkeys(str(path.parent) for path in paths.values()))
        self._host = HostClient(
            sys.executable, "rows", paths[params.file], params.function, params.with_, folders, {}
        )
        ready = self._host.wait_until_ready()
        if ready is None or "error" in ready:
            self.stop()
            reason = ready["error"] if ready else f"loading took longer than {START_SECONDS:g} s"
            details = ready.get("traceback", "") if ready else ""
            raise StepError(f"{_at(params.file, ready)}: {reason}", "correct the file", details=details)
        self._place = f"{Path(params.file).name}:{ready['line']}" if ready.get("line") else params.file

    def stop(self) -> None:
        self._host.stop()

    def call(self, calls: Sequence[_Call]) -> Iterator[list[Row]]:
        """The rows that the function returns for each call."""
        seeds = [int(digest([self._seed, call.first])[:15], 16) for call in calls]
        message = {
            "batched": self.params.batched,
            "calls": [{"rows": call.rows, "seed": seed} for call, seed in zip(calls, seeds, strict=True)],
        }
        responses = self._host.request_many(message, len(calls), self.params.timeout_seconds)
        for call, response in zip(calls, responses, strict=False):
            first, rows = call.first, call.rows
            if response is None:
                reason = f"took longer than {self.params.timeout_seconds:g} s"
                advice = "raise `timeout_seconds`, or correct the function"
                raise self._failure(first, rows, f"`{self.params.call}` {reason}", self._place, advice)
            if "error" in response:
                cause, trace = f"`{self.params.call}`: {response['error']}", response.get("traceback", "")
                place = response.get("place") or self._place
                raise self._failure(first, rows, cause, place, _ADVICE, trace)
            self._check(first, rows, response["rows"])
            yield response["rows"]

    def _check(self, first: int, rows: Sequence[Row], returned: Sequence[Row]) -> None:
        for row in returned:
            problem = self._row_problem(row)
            if problem is not None:
                cause = f"`{self.params.call}` returned {problem}"
                raise self._failure(first, rows, cause, self._place, _ADVICE, describe_values(row))

    def _row_problem(self, row: Row) -> str | None:
        for name in row:
            if name not in self.params.columns:
                return f"the column `{name}`, which is not among the `columns` of the step"
        for name, type in self.params.columns.items():
            if name not in row:
                return f"a row without the column `{name}`"
            problem = value_problem(row[name], type)
            if problem is not None:
                return f"{problem} in the column `{name}` of type {type}"
        return None

    def _failure(
        self, first: int, rows: Sequence[Row], cause: str, place: str, advice: str, trace: str = ""
    ) -> StepError:
        where = f"row {first}" if len(rows) == 1 else f"rows {first} to {first + len(rows) - 1}"
        values = f"{where}:\n{describe_values(rows[0])}"
        return StepError(
            f"{where}: {cause} ({place})", advice, details="\n".join(filter(None, (values, trace)))
        )


def _at(file: str, response: Mapping[str, Any] | None) -> str:
    return str((response or {}).get("place") or Path(file).name)


def map_rows(function: RowFunction, connection: Any) -> None:
    """Replace the rows with those that the function returns, in the part of the row that they are from."""
    columns = function.params.columns
    listed = ", ".join(f"{quote_identifier(name)} JSON" for name in columns)
    connection.execute("DROP TABLE IF EXISTS source")
    connection.execute(f"CREATE TABLE returned_rows ({listed})")
    connection.execute("CREATE TABLE returned_parts (part VARCHAR)")
    try:
        read, kept = _fill_tables(function, connection, list(columns))
    finally:
        function.stop()
    if read and not kept:
        cause = f"`{function.params.call}` returned no row for any of {read} rows"
        raise StepError(cause, "return the row: None drops it")
    connection.execute("DROP TABLE rows")  # before the copies that follow need its memory
    load_json_columns(connection, "returned_rows", columns)
    connection.execute("DROP TABLE returned_rows")
    connection.execute(
        "CREATE TABLE rows AS SELECT source.*, row_number() OVER () AS __row, part AS __part"
        " FROM source POSITIONAL JOIN returned_parts"
    )
    connection.execute("DROP TABLE source")
    connection.execute("DROP TABLE returned_parts")


def _fill_tables(function: RowFunction, connection: Any, names: Sequence[str]) -> tuple[int, int]:
    """Write the returned rows as JSON, with their parts. Returns the number of rows before and after."""
    read = kept = size = 0
    pending: list[list[str | None]] = []
    parts: list[str] = []
    for calls in _calls(function.params, connection):
        read += sum(len(call.rows) for call in calls)
        for call, returned in zip(calls, function.call(calls), strict=True):
            cells = [[_to_json(row[name]) for name in names] for row in returned]
            pending += cells
            parts += [call.part] * len(cells)
            size += sum(len(cell or "") for row in cells for cell in row)
            if len(pending) >= _ROWS_PER_INSERT or size >= _CHARACTERS_PER_INSERT:
                kept += _insert(connection, names, pending, parts)
                pending, parts, size = [], [], 0
    return read, kept + _insert(connection, names, pending, parts)


def _calls(params: RowFunctionParams, connection: Any) -> Iterator[list[_Call]]:
    """The calls of each message. A batch has rows of one part."""
    types = {str(row[0]): str(row[1]) for row in connection.execute("DESCRIBE rows").fetchall()}
    names = [name for name in params.reads or types if name not in ("__row", "__part")]
    listed = ", ".join(map(quote_identifier, names))
    order = "__part, __row" if params.batched else "__row"
    # Its own cursor, because the connection writes the returned rows meanwhile.
    cursor = connection.cursor()
    cursor.execute(f"SELECT __part, {listed} FROM rows ORDER BY {order}")
    calls: list[_Call] = []
    size = 0
    for part, number, row in _numbered_rows(cursor, names, [types[name] == "JSON" for name in names]):
        last = calls[-1] if calls and params.batched else None
        if last is not None and last.part == part and len(last.rows) < params.batch_size:
            last.rows.append(row)
            continue
        if calls and (params.batched or len(calls) == _CALLS_PER_MESSAGE or size > _CHARACTERS_PER_MESSAGE):
            yield calls
            calls, size = [], 0
        calls.append(_Call(part, number, [row]))
        size += sum(len(value) for value in row.values() if isinstance(value, str))
    if calls:
        yield calls
    cursor.close()


def _numbered_rows(
    cursor: Any, names: Sequence[str], parsed: Sequence[bool]
) -> Iterator[tuple[str, int, Row]]:
    number = count(1)
    while fetched := cursor.fetchmany(_CALLS_PER_MESSAGE):
        for part, *values in fetched:
            row = {
                name: json.loads(value) if is_json and isinstance(value, str) else value
                for name, value, is_json in zip(names, values, parsed, strict=True)
            }
            yield str(part), next(number), row


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _insert(
    connection: Any, names: Sequence[str], rows: Sequence[Sequence[str | None]], parts: Sequence[str]
) -> int:
    import pyarrow

    if not rows:
        return 0
    columns = zip(*rows, strict=True)
    cells = {
        name: pyarrow.array(column, type=pyarrow.string())
        for name, column in zip(names, columns, strict=True)
    }
    connection.register("returned_cells", pyarrow.table(cells))
    connection.execute("INSERT INTO returned_rows SELECT * FROM returned_cells")
    connection.unregister("returned_cells")
    connection.register("part_names", pyarrow.table({"part": pyarrow.array(parts, type=pyarrow.string())}))
    connection.execute("INSERT INTO returned_parts SELECT * FROM part_names")
    connection.unregister("part_names")
    return len(rows)
